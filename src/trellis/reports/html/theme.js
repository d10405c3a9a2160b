"use strict";
// Light or dark: as the system has it, until the reader says otherwise.
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  root.classList.add("scripts");
  button.hidden = false;

  const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : system.matches;
  const show = () => {
    button.textContent = dark() ? "Light colours" : "Dark colours";
  };
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    show();
  });
  system.addEventListener("change", show);
  show();
})();
