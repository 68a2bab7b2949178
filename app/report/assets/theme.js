// Light or dark: as the system has it, until the button is pressed. The event "scheme" notifies the code that paints on a canvas.
const darkSystem = matchMedia("(prefers-color-scheme: dark)");

const isDark = () => (document.documentElement.dataset.theme ?? (darkSystem.matches ? "dark" : "light")) === "dark";

const tellScheme = () => document.dispatchEvent(new Event("scheme"));

const startTheme = () => {
  darkSystem.addEventListener("change", tellScheme);
  byId("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    tellScheme();
  });
};
