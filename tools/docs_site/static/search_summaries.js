// Shows below each page that a search finds where its words stand. Sphinx's own summaries fetch the pages, which browsers
// refuse to pages read from disk; here the texts come as a script, page_texts.js.
(() => {
  const AROUND = 120;

  const words = () => {
    const query = new URLSearchParams(window.location.search).get("q") || "";
    return query.toLowerCase().split(/[^\p{Letter}\p{Number}_]+/u).filter((word) => word.length > 1);
  };

  // The words close together, if they are; else the first of them that is there.
  const findPlace = (text, sought) => {
    const lower = text.toLowerCase();
    const whole = lower.indexOf(sought.join(" "));
    if (whole >= 0) return whole;
    const near = (place) => sought.filter((word) => lower.slice(Math.max(0, place - AROUND), place + AROUND).includes(word)).length;
    let [best, most] = [-1, 0];
    for (let place = lower.indexOf(sought[0]); place >= 0 && most < sought.length; place = lower.indexOf(sought[0], place + 1)) {
      if (near(place) > most) [best, most] = [place, near(place)];
    }
    return best >= 0 ? best : Math.max(0, ...sought.map((word) => lower.indexOf(word)));
  };

  const summarize = (text, sought) => {
    const place = findPlace(text, sought);
    const from = place > AROUND ? text.indexOf(" ", place - AROUND) + 1 : 0;
    const to = Math.max(text.lastIndexOf(" ", place + AROUND), place);
    const piece = (from ? "… " : "") + text.slice(from, to) + " …";
    const paragraph = document.createElement("p");
    paragraph.className = "found";
    const pattern = new RegExp(`(?<![\\p{Letter}\\p{Number}])(${sought.join("|")})`, "giu");
    piece.split(pattern).forEach((part, number) => {
      const mark = document.createElement("mark");
      mark.textContent = part;
      paragraph.append(number % 2 ? mark : part);
    });
    return paragraph;
  };

  const sought = words();
  if (!sought.length) return;
  new MutationObserver(() => {
    document.querySelectorAll("#search-results li:not([data-summarized])").forEach((item) => {
      item.dataset.summarized = "";
      const page = item.querySelector("a").getAttribute("href").replace(/\.html(#.*|\?.*)?$/, "");
      if (window.PAGE_TEXTS[page]) item.append(summarize(window.PAGE_TEXTS[page], sought));
    });
  }).observe(document.getElementById("search-results"), { childList: true, subtree: true });
})();
