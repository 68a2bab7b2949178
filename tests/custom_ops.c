/* A library of custom operators for onnxruntime: com.acme.Scale, y = factor * x in float32.

   onnxruntime has a stable binary interface: OrtApi is a table of functions to which later versions add at the end.
   The package of onnxruntime has no headers, so the positions of the functions used here, as of version 1, and the
   struct OrtCustomOp of version 17 are written out. A macro makes the library fail in one of several ways. */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
typedef void *Status;
typedef void *const *Api;
typedef struct { Api (*GetApi)(uint32_t); const char *(*GetVersionString)(void); } ApiBase;
enum { CreateStatus = 0, CreateCustomOpDomain = 26, CustomOpDomain_Add = 27, AddCustomOpDomain = 28,
       GetTensorMutableData = 51, GetDimensionsCount = 61, GetDimensions = 62, GetTensorShapeElementCount = 64,
       GetTensorTypeAndShape = 65, KernelInfoGetAttribute_float = 85, KernelContext_GetInput = 90,
       KernelContext_GetOutput = 91, ReleaseStatus = 93, ReleaseTensorTypeAndShapeInfo = 99 };
#define CALL(f, ...) ((Status (*)())api[f])(__VA_ARGS__)
typedef struct Op {
  uint32_t version;
  void *(*CreateKernel)(const struct Op *, Api, const void *);
  const char *(*GetName)(const struct Op *);
  const char *(*GetProvider)(const struct Op *);
  int (*GetInputType)(const struct Op *, size_t);
  size_t (*GetInputCount)(const struct Op *);
  int (*GetOutputType)(const struct Op *, size_t);
  size_t (*GetOutputCount)(const struct Op *);
  void (*Compute)(void *, void *);
  void (*Destroy)(void *);
  int (*GetInputCharacteristic)(const struct Op *, size_t);
  int (*GetOutputCharacteristic)(const struct Op *, size_t);
  int (*GetInputMemoryType)(const struct Op *, size_t);
  int (*variadic[4])(const struct Op *);
  void *CreateKernelV2, *ComputeV2, *InferOutputShape;
  int (*GetStartVersion)(const struct Op *);
  int (*GetEndVersion)(const struct Op *);
} Op;
typedef struct { Api api; float factor; } Kernel;
static void *create(const Op *op, Api api, const void *info) {
  Kernel *k = malloc(sizeof *k);
  k->api = api; k->factor = 1;
  Status s = CALL(KernelInfoGetAttribute_float, info, "factor", &k->factor);
  if (s) CALL(ReleaseStatus, s);
  return k;
}
static const char *name(const Op *op) { return "Scale"; }
static const char *provider(const Op *op) { return NULL; }
static int type(const Op *op, size_t i) { return 1; }
static size_t one(const Op *op) { return 1; }
static void compute(void *kernel, void *context) {
  Kernel *k = kernel; Api api = k->api;
  void *x, *y, *shape; size_t rank, size; int64_t dims[16]; float *from, *to;
  CALL(KernelContext_GetInput, context, (size_t)0, &x);
  CALL(GetTensorTypeAndShape, x, &shape);
  CALL(GetDimensionsCount, shape, &rank);
  CALL(GetDimensions, shape, dims, rank);
  CALL(GetTensorShapeElementCount, shape, &size);
  CALL(ReleaseTensorTypeAndShapeInfo, shape);
  CALL(KernelContext_GetOutput, context, (size_t)0, dims, rank, &y);
  CALL(GetTensorMutableData, x, &from);
  CALL(GetTensorMutableData, y, &to);
#ifdef CRASH
  *(volatile int *)0 = 1;
#endif
#ifdef HANG
  for (;;) pause();
#endif
  for (size_t i = 0; i < size; i++) to[i] = from[i] * k->factor;
}
static void destroy(void *kernel) { free(kernel); }
static int zero_at(const Op *op, size_t i) { return 0; }
static int zero(const Op *op) { return 0; }
static int first(const Op *op) { return 1; }
static int last(const Op *op) { return 0x7fffffff; }
static const Op scale = { 17, create, name, provider, type, one, type, one, compute, destroy, zero_at, zero_at, zero_at,
                          { zero, zero, zero, zero }, NULL, NULL, NULL, first, last };
#ifdef CRASH_AT_LOAD
__attribute__((constructor)) static void start(void) { *(volatile int *)0 = 1; }
#endif
#ifdef HANG_AT_LOAD
__attribute__((constructor)) static void start(void) { for (;;) pause(); }
#endif
#ifdef EXIT_AT_LOAD
__attribute__((constructor)) static void start(void) { exit(0); }
#endif
#ifdef NO_ENTRY
#define RegisterCustomOps Other
#endif
Status RegisterCustomOps(void *options, const ApiBase *base) {
  Api api = base->GetApi(1);
  void *domain; Status s;
  if ((s = CALL(CreateCustomOpDomain, "com.acme", &domain))) return s;
  if ((s = CALL(CustomOpDomain_Add, domain, &scale))) return s;
#ifdef TWICE
  if ((s = CALL(CustomOpDomain_Add, domain, &scale))) return s;
#endif
  return CALL(AddCustomOpDomain, options, domain);
}
