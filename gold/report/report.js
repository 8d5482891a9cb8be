(() => {
  const all = (selector, of = document) => [...of.querySelectorAll(selector)];
  const make = (name, text, more = {}) => Object.assign(document.createElement(name), { textContent: text }, more);

  const age = document.getElementById("age");
  const spoken = s => s < 60 ? "less than a minute" : s < 7200 ? `${Math.floor(s / 60)} min`
    : s < 172800 ? `${Math.floor(s / 3600)} h` : `${Math.floor(s / 86400)} days`;
  const tellAge = () => {
    const seconds = (Date.now() - Date.parse(age.dataset.made)) / 1000;
    age.textContent = `This page is ${spoken(seconds)} old.`;
    age.classList.toggle("old", seconds > 86400);
  };
  tellAge();
  setInterval(tellAge, 30000);

  const valueOf = cell => {
    const text = cell.dataset.sort ?? cell.textContent.trim(), plain = text.replaceAll(",", "");
    return plain !== "" && !isNaN(plain) ? Number(plain) : text === "–" ? "" : text;
  };
  const order = (a, b) => typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? 1 : -1;
  const sortable = (table, sort) => all("thead th", table).forEach((head, at) => {
    const button = make("button", head.textContent, { type: "button" });
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      all("thead th", table).forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      sort(at, down ? -1 : 1);
    });
  });
  all("table.sortable:not(#run-lines)").forEach(table => sortable(table, (at, way) => {
    const rows = all("tbody tr", table).map(row => [valueOf(row.cells[at]), row]);
    rows.sort((a, b) => way * order(a[0], b[0]));
    table.tBodies[0].append(...rows.map(row => row[1]));
  }));

  const table = document.getElementById("run-lines");
  if (table) {
    const runs = JSON.parse(document.getElementById("run-data").textContent);
    const [first, step] = [table.tBodies[0].rows.length, 200];
    const labels = all("thead th", table).map(head => head.textContent.toLowerCase());
    const more = document.getElementById("more-runs"), failed = document.getElementById("failed-runs");
    let shown = first, chosen = runs;
    const tellMore = () => {
      more.hidden = shown >= chosen.length;
      more.textContent = `Show ${Math.min(step, chosen.length - shown)} more of ${chosen.length.toLocaleString("en")}`;
    };
    const draw = () => {
      table.tBodies[0].replaceChildren(...chosen.slice(0, shown).map(run => {
        const row = document.createElement("tr"), [began, seconds, layers, tables, records, wrong, error] = run;
        const texts = [began.slice(0, 19).replace("T", " "), seconds.toLocaleString("en"), layers,
          tables.toLocaleString("en"), records.toLocaleString("en"), wrong ? `failed: ${error}` : "ok"];
        row.append(...texts.map((text, at) => {
          const cell = make(at ? "td" : "th", text, { className: [1, 3, 4].includes(at) ? "n" : "" });
          if (at) cell.dataset.label = labels[at];
          else cell.scope = "row";
          if (at === 5 && wrong) cell.className = "bad-text";
          return cell;
        }));
        return row;
      }));
      tellMore();
    };
    more.addEventListener("click", () => { shown += step; draw(); });
    failed.addEventListener("change", () => {
      chosen = failed.checked ? runs.filter(run => run[5]) : runs;
      shown = first;
      draw();
    });
    sortable(table, (at, way) => {
      const of = at === 5 ? run => run[6] : run => run[at];
      runs.sort((a, b) => way * order(of(a), of(b)));
      chosen = failed.checked ? runs.filter(run => run[5]) : runs;
      draw();
    });
    tellMore();
    all(".scripted").forEach(part => { part.hidden = false; });
  }

  all("article.table details").forEach(details => details.addEventListener("toggle", () => {
    const closed = details.querySelector("noscript");
    if (closed) closed.outerHTML = closed.textContent;
  }, { once: true }));

  const filter = document.getElementById("filter");
  filter.closest("label").hidden = false;
  filter.addEventListener("input", () => all("[data-table]").forEach(part => {
    part.hidden = !part.dataset.table.includes(filter.value.trim());
  }));
  const open = () => {
    const details = location.hash.length > 1 && document.getElementById(location.hash.slice(1))?.querySelector("details");
    if (details) details.open = true;
  };
  addEventListener("hashchange", open);
  open();
})();
