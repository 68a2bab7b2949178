// Each part starts by itself; those whose data is not here do nothing.
const tellTooOld = () => {
  const said = "This browser is too old to unpack what belongs here.";
  byId("rules")?.before(element("p", { class: "notice" }, said));
  byId("lanes")?.after(element("p", { class: "waiting" }, said));
  if (byId("waiting")) byId("waiting").textContent = said;
};

startTheme();
startScrolling();
try {
  if ("DecompressionStream" in window) await Promise.all([startRewrites(), startGraph(), startTimeline(), startModels()]);
  else tellTooOld();
} finally {
  document.documentElement.dataset.ready = "";
}
