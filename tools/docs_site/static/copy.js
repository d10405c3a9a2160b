// A button at each block of code that copies it; of a transcript only the commands, without their prompts.
(() => {
  const commands = (text) =>
    text.split("\n").filter((line) => line.startsWith("$ ")).map((line) => line.slice(2)).join("\n");

  const copy = async (text) => {
    if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text);
    const field = document.createElement("textarea");
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  };

  const addButton = (block) => {
    const text = block.querySelector("pre").textContent.trimEnd();
    const copied = block.closest(".highlight-console") ? commands(text) : text;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await copy(copied);
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
    block.append(button);
  };

  document.addEventListener("DOMContentLoaded", () => document.querySelectorAll("div.highlight").forEach(addButton));
})();
