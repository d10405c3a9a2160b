// A click on a picture opens it alone, where a small screen can enlarge it, as on a code host.
document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("article img").forEach((picture) => {
    if (picture.closest("a")) return;
    const link = document.createElement("a");
    link.href = picture.src;
    picture.replaceWith(link);
    link.append(picture);
  });
});
