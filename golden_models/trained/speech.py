"""Speech of espeak-ng at 16 kHz."""

import ctypes
from functools import cache

import numpy as np
from scipy.signal import resample_poly

from .packages import unpacked

SYNCHRONOUS, UTF8 = 2, 1
RATE, VOLUME, PITCH = 1, 2, 3  # espeak_PARAMETER
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)
VOICES = ("en-us", "en", "en-gb-scotland", "en-029", "en-us+f2", "en-us+f4", "en+m3", "en-us+m7")


@cache
def _library() -> tuple[ctypes.CDLL, int]:
    """The library, ready to speak, and its sampling rate."""
    folder = unpacked("espeakng-loader") / "espeakng_loader"
    library = ctypes.CDLL(str(folder / "libespeak-ng.so"))
    rate = library.espeak_Initialize(SYNCHRONOUS, 0, str(folder).encode(), 0)
    if rate <= 0:
        raise OSError(f"espeak_Initialize returned {rate}")
    return library, rate


def speak(text: str, voice: str, words_per_minute: int = 175, pitch: int = 50) -> np.ndarray:
    """The samples, float32 in -1..1. Raises OSError for an unknown voice."""
    library, rate = _library()
    parts: list[np.ndarray] = []

    def receive(samples, count, events) -> int:
        if samples and count:
            parts.append(np.ctypeslib.as_array(samples, (count,)).copy())
        return 0

    callback = CALLBACK(receive)
    library.espeak_SetSynthCallback(callback)
    if library.espeak_SetVoiceByName(voice.encode()):
        raise OSError(f"espeak-ng has no voice {voice}")
    library.espeak_SetParameter(RATE, words_per_minute, 0)
    library.espeak_SetParameter(PITCH, pitch, 0)
    encoded = text.encode()
    library.espeak_Synth(encoded, len(encoded) + 1, 0, 0, 0, UTF8, None, None)
    library.espeak_Synchronize()
    divisor = np.gcd(rate, 16000)
    return resample_poly(np.concatenate(parts) / 32768, 16000 // divisor, rate // divisor).astype(np.float32)


def noise(kind: str, samples: int, draw: np.random.Generator) -> np.ndarray:
    """Noise with an effective value of 1: white, pink, brown, a mains hum, or knocks."""
    if kind == "hum":
        time = np.arange(samples) / 16000
        found = sum(np.sin(2 * np.pi * (50 * k * time + draw.random())) / k for k in range(1, 9))
    elif kind == "knocks":
        found = draw.normal(size=samples) * np.repeat(draw.random(samples // 160 + 1) < 0.04, 160)[:samples]
        found += 0.02 * draw.normal(size=samples)
    else:
        spectrum = np.fft.rfft(draw.normal(size=samples))
        slope = {"white": 0, "pink": 0.5, "brown": 1}[kind]
        found = np.fft.irfft(spectrum / np.maximum(np.arange(len(spectrum)), 20) ** slope, samples)
    return (found / np.sqrt(np.mean(found**2))).astype(np.float32)
