"use strict";
// The page's own script: timelines, the stepper, side by side. It reads the data block and writes text nodes only.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const ROW = 34, TOP = 26, CHAR = 7.4;
  const sections = [...document.querySelectorAll("section.finding")];
  const place = { finding: 1, step: 0, beside: "" };
  let shown = null; // what is drawn: {number, beside, update}

  function make(tag, attributes = {}, ...children) {
    const svg = ["svg", "g", "rect", "line", "text", "circle", "path"].includes(tag);
    const element = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value === true) element.setAttribute(name, "");
      else if (value !== false && value !== null) element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  }
  const line = (number) => data.lines[number];
  const eventText = (run, step) => data.events[run.events[step - 1]][0];
  const eventOwner = (run, step) => data.events[run.events[step - 1]][1];

  // Timelines

  function glyph(mark, x, y, width) {
    const name = data.marks[mark][0], end = x + width;
    const stroke = (dy, style = name) => make("line", { x1: x, x2: end, y1: y + dy, y2: y + dy, class: style });
    if (name === "unacked") {
      const group = make("g", { class: name });
      for (let at = x + 4; at < end; at += 11) group.append(make("circle", { cx: at, cy: y, r: 4 }));
      return group;
    }
    if (name === "parked") return make("g", {}, stroke(-2.5), stroke(2.5));
    if (name === "bare") {
      const group = make("g", {}, stroke(-2.5), stroke(2.5));
      for (let at = x + 6; at < end; at += 14)
        group.append(make("line", { x1: at - 3, x2: at + 3, y1: y + 6, y2: y - 6, class: name }));
      return group;
    }
    if (name === "closed") return make("rect", { x, y: y - 4, width, height: 8, class: name });
    return stroke(0);
  }

  function timeline(run, differs) {
    const count = run.events.length;
    const widths = run.labels.map((label, i) =>
      Math.max(34, CHAR * Math.max(label.length + 2, ...run.lanes.map((lane) => data.cells[lane[3][i]][0].length)) + 14));
    const starts = [6];
    for (const width of widths) starts.push(starts[starts.length - 1] + width);
    const notes = Math.max(0, ...run.lanes.map((lane) => lane[2].length));
    const end = starts[count], width = end + (notes ? notes * CHAR + 34 : 8), height = TOP + run.lanes.length * ROW;
    const svg = make("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
    if (count > run.own) {
      svg.append(make("rect", { x: starts[run.own], y: 0, width: end - starts[run.own], height, class: "band" }));
    }
    const here = make("rect", { y: 0, height, width: 0, x: 0, class: "here" });
    svg.append(here);
    run.labels.forEach((label, i) => {
      const text = differs === label ? `${label} ▼` : label;
      svg.append(make("text", { x: starts[i] + 2, y: 17, class: differs === label ? "differs" : "number" }, text));
    });
    run.lanes.forEach((lane, row) => {
      const y = TOP + row * ROW + 24;
      svg.append(make("line", { x1: 0, x2: width, y1: y + 9.5, y2: y + 9.5, class: "rule" }));
      const marks = lane[3].map((cell) => data.cells[cell][1]);
      for (let i = 0, next; i < count; i = next) {
        for (next = i + 1; next < count && marks[next] === marks[i];) next += 1;
        if (marks[i] < 0) continue;
        svg.append(glyph(marks[i], starts[i], y, starts[next] - starts[i]));
        if (data.marks[marks[i]][0] === "acked")
          svg.append(make("path", { d: `M${starts[i] + 1} ${y} l4 5 l7 -10`, style: "stroke-dasharray:none", class: "acked" }));
      }
      lane[3].forEach((cell, i) => {
        const [word, , lost] = data.cells[cell];
        if (word) svg.append(make("text", { x: starts[i] + 2, y: y - 8, class: lost ? "lost" : "" }, word));
      });
      if (lane[2]) svg.append(make("text", { x: end + 8, y: y + 4, class: "note" }, `◄ ${lane[2]}`));
    });
    const names = make("svg", { width: 84, height, viewBox: `0 0 84 ${height}`, "aria-hidden": "true" });
    run.lanes.forEach((lane, row) => {
      names.append(make("text", { x: 8, y: TOP + row * ROW + 28, class: lane[1] ? "" : "lane-name" }, lane[0]));
    });
    const scroll = make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": `Timeline under ${run.policy}; the list of events below says the same` }, svg);
    const select = (step) => {
      const on = step > 0 && step <= count;
      here.setAttribute("x", on ? starts[step - 1] : 0);
      here.setAttribute("width", on ? widths[step - 1] : 0);
      if (on) {
        const left = starts[step - 1], right = starts[step];
        if (left < scroll.scrollLeft) scroll.scrollLeft = left - 20;
        else if (right > scroll.scrollLeft + scroll.clientWidth) scroll.scrollLeft = right - scroll.clientWidth + 40;
      } else scroll.scrollLeft = 0;
    };
    svg.addEventListener("click", (event) => {
      const x = event.clientX - svg.getBoundingClientRect().left;
      const step = starts.findLastIndex((start) => start <= x) + 1;
      if (step >= 1 && step <= count) go({ label: run.labels[step - 1] });
    });
    return { element: make("div", { class: "timeline" }, make("div", { class: "names" }, names), scroll), select };
  }

  function legend(runs) {
    const used = new Set(runs.flatMap((run) => run.lanes.flatMap((lane) => lane[3].map((cell) => data.cells[cell][1]))));
    const list = make("ul", { class: "legend" });
    data.marks.forEach(([, text], mark) => {
      if (!used.has(mark)) return;
      list.append(make("li", {}, make("svg", { width: 30, height: 12, "aria-hidden": "true" }, glyph(mark, 1, 6, 28)), text));
    });
    list.append(make("li", {}, "✗ failed or lost"), make("li", {}, "shaded: what follows when everything goes well"));
    return list;
  }

  // The stepper

  function stateBlock(title, number, other, sign) {
    const block = make("div", {}, make("h4", {}, title));
    const names = [...data.sides.slice(0, 1), "Gym", "wire", "faults"];
    const order = [0, 1, 2, 3];
    for (const side of order) {
      const lines = data.states[number][side];
      const known = new Set(other === null ? lines : data.states[other][side]);
      const pre = make("pre", { "aria-label": `${names[side]}, ${title}` });
      for (const id of lines) {
        const changed = !known.has(id);
        const span = make("span", { class: `line${changed ? ` ${sign}` : ""}` }, line(id));
        if (changed) span.title = sign === "plus" ? "new" : "no longer so";
        pre.append(span);
      }
      block.append(make("div", { class: "quiet" }, names[side]), pre);
    }
    return block;
  }

  function effects(run, step) {
    const list = make("ul");
    const done = run.changes[step - 1];
    for (const [side, text] of done) list.append(make("li", {}, make("b", {}, data.sides[side]), ` ${line(text)}`));
    if (!done.length) list.append(make("li", {}, "nothing changes"));
    return list;
  }

  function nextEvents(run, step) {
    const list = make("ul", { class: "next" });
    const taken = step < run.events.length ? run.events[step] : -1;
    for (const id of data.states[run.states[step]][4]) {
      const [text, owner] = data.events[id];
      const item = make("li", { class: id === taken ? "taken" : "" }, make("code", {}, text), " ", make("span", { class: `owner ${owner}` }, owner));
      if (id === taken) item.append(" ← next here");
      list.append(item);
    }
    if (!list.children.length) list.append(make("li", {}, "nothing can happen any more"));
    return list;
  }

  function ownRun(finding) { return data.runs[data.findings[finding - 1].runs[0][0]]; }

  const breaks = (run) => Math.min(run.own, run.verdict && run.verdict[2] !== null ? run.verdict[2] : run.own);

  function hash(step, beside = place.beside) {
    return `#f${place.finding}-s${step}${beside ? `-vs-${encodeURIComponent(beside)}` : ""}`;
  }

  function draw(section) {
    const finding = data.findings[place.finding - 1];
    const run = ownRun(place.finding);
    const other = finding.runs.find(([id]) => data.runs[id].policy === place.beside && place.beside);
    const otherRun = other ? data.runs[other[0]] : null;
    const box = section.querySelector(".script");
    const drawn = timeline(run, other ? other[1] : null);
    const last = run.events.length;
    const button = (text, label, step) => make("button", { type: "button", "aria-label": label, onclick: () => go({ step: step() }) }, text);
    const buttons = [
      button("|◀", "First step", () => 0), button("◀", "Step back", () => place.step - 1),
      button("▶", "Step forward", () => place.step + 1), button("▶|", "Last step", () => last),
    ];
    const counter = make("output", { "aria-live": "polite" });
    const link = make("a", { class: "permalink" }, "link to this step");
    const choice = make("select", { onchange: (event) => go({ beside: event.target.value }) },
      make("option", { value: "" }, "no other policy"));
    for (const [id] of finding.runs.slice(1)) {
      const name = data.runs[id].policy;
      choice.append(make("option", { value: name, selected: name === place.beside }, name));
    }
    const panel = make("div", { class: "panel" });
    const besideBox = make("div", { class: "beside" });
    const otherDrawn = otherRun ? timeline(otherRun, other[1]) : null;
    box.replaceChildren(
      drawn.element, legend(otherRun ? [run, otherRun] : [run]),
      make("div", { class: "controls", role: "group", "aria-label": "Steps" }, ...buttons, counter, link,
        make("span", { class: "quiet keys" }, make("kbd", {}, "←"), " ", make("kbd", {}, "→"), " step  ", make("kbd", {}, "Home"), " ", make("kbd", {}, "End"), "  ", make("kbd", {}, "n"), " ", make("kbd", {}, "p"), " next and previous finding")),
      make("div", { class: "controls" }, make("label", {}, "Side by side with ", choice)), besideBox, panel);
    box.hidden = false;
    if (otherRun) besideBox.append(make("h3", {}, `The same history under ${otherRun.policy}`), otherDrawn.element);
    const table = otherRun ? outcomes(run, otherRun, other[1]) : null;
    if (table) besideBox.append(make("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Outcomes side by side" }, table.element));
    const steps = [...section.querySelectorAll("ol.steps > li")];

    function update() {
      const step = place.step;
      drawn.select(step);
      buttons[0].disabled = buttons[1].disabled = step === 0;
      buttons[2].disabled = buttons[3].disabled = step === last;
      counter.textContent = step ? `Step ${step} of ${last}: ${eventText(run, step)}` : `Step 0 of ${last}: before anything`;
      link.setAttribute("href", hash(step));
      steps.forEach((item, i) => {
        item.classList.toggle("here", i === step - 1);
        if (i === step - 1) item.setAttribute("aria-current", "step"); else item.removeAttribute("aria-current");
      });
      panel.replaceChildren(...stepPanel(run, step));
      if (otherDrawn) {
        const label = step ? run.labels[step - 1] : "";
        otherDrawn.select(step ? otherRun.labels.indexOf(label) + 1 : 0);
        table.update(label, step);
      }
    }
    shown = { number: place.finding, beside: place.beside, update };
    update();
  }

  function stepPanel(run, step) {
    const out = [];
    if (step) {
      const owner = eventOwner(run, step);
      out.push(make("h3", {}, `Step ${step}: `, make("code", {}, eventText(run, step)), " ", make("span", { class: `owner ${owner}` }, owner)),
        make("div", { class: "event" }, effects(run, step)));
      if (run.verdict && run.verdict[2] === step) out.push(make("p", { class: "verdict-here" }, run.verdict[1]));
      if (step === run.own + 1) out.push(make("p", { class: "quiet" }, "From here on: what follows when everything goes well."));
      out.push(make("div", { class: "states" },
        stateBlock("before", run.states[step - 1], run.states[step], "minus"),
        stateBlock("after", run.states[step], run.states[step - 1], "plus")));
    } else {
      out.push(make("h3", {}, "Before anything has happened"), make("div", { class: "states" }, stateBlock("at the start", run.states[0], null, "plus")));
    }
    out.push(make("h4", {}, "What may happen next"), nextEvents(run, step));
    return out;
  }

  function outcomes(run, other, first) {
    const cell = (...children) => make("td", { role: "cell" }, ...children); // roles: at 400 px the rows are grids
    const now = [cell(), cell()];
    const states = [run, other].map((one) => make("pre", { "aria-label": `state under ${one.policy}` }));
    const broken = (one) => one.verdict
      ? make("span", { class: one.verdict[0] }, one.verdict[1]) : make("span", { class: "ok" }, "Nothing is broken.");
    const sentences = (one) => make("ul", { class: "plain" }, ...one.snapshots.map((text) => make("li", {}, text)));
    const leftOut = (one) => one.out.length
      ? make("ul", {}, ...one.out.map(([label, text, why]) => make("li", {}, `${label} ${text}: ${why}`))) : "nothing";
    const at = (one, label) => one.labels.indexOf(label) + 1;
    const does = (one, label) => {
      const step = at(one, label);
      return step ? [make("code", {}, eventText(one, step)), effects(one, step)] : ["does not happen here"];
    };
    const element = make("table", { role: "table" },
      make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, make("td", { role: "cell" }), make("th", { scope: "col", role: "columnheader" }, run.policy), make("th", { scope: "col", role: "columnheader" }, other.policy))),
      make("tbody", { role: "rowgroup" },
        make("tr", { role: "row" }, make("th", { scope: "row", role: "rowheader" }, "verdict"), cell(broken(run)), cell(broken(other))),
        make("tr", { role: "row" }, make("th", { scope: "row", role: "rowheader" }, "snapshots"), cell(sentences(run)), cell(sentences(other))),
        make("tr", { role: "row" }, make("th", { scope: "row", role: "rowheader" }, "left un-ACKed"), cell(run.left), cell(other.left)),
        make("tr", { role: "row" }, make("th", { scope: "row", role: "rowheader" }, "first difference ▼"),
          ...(first === null ? [cell("none"), cell("none")] : [cell(`event ${first} `, ...does(run, first)), cell(`event ${first} `, ...does(other, first))])),
        make("tr", { role: "row" }, make("th", { scope: "row", role: "rowheader" }, "left out"), cell(leftOut(run)), cell(leftOut(other))),
        make("tr", { role: "row" }, make("th", { scope: "row", role: "rowheader" }, "this step"), ...now),
        make("tr", { role: "row" }, make("th", { scope: "row", role: "rowheader" }, "state after it"), ...states.map((pre) => cell(make("details", { ontoggle: both }, make("summary", {}, "RL, Gym, wire"), pre))))));
    function both(event) {
      for (const one of element.querySelectorAll("details")) one.open = event.target.open;
    }
    const heads = ["RL", "Gym", "wire"];
    const text = (number) => heads.map((head, side) => [head, ...data.states[number][side].map((id) => `  ${line(id)}`)].join("\n")).join("\n");
    function update(label, step) {
      [run, other].forEach((one, i) => {
        const there = step ? at(one, label) : 0;
        now[i].replaceChildren(...(step ? does(one, label) : ["before anything"]));
        states[i].textContent = there || !step ? text(one.states[there]) : "does not happen here";
      });
    }
    return { element, update };
  }

  // Moving about

  function read() {
    const found = /^#f(\d+)(?:-s(\d+))?(?:-vs-(.+))?$/.exec(location.hash);
    if (!found || !sections[found[1] - 1]) return null;
    const run = ownRun(+found[1]);
    const broken = breaks(run);
    let beside = "";
    try { beside = found[3] ? decodeURIComponent(found[3]) : ""; } catch { beside = ""; }
    return { finding: +found[1], step: found[2] === undefined ? broken : Math.min(+found[2], run.events.length), beside };
  }

  function go(change) {
    const run = ownRun(change.finding || place.finding);
    if (change.label !== undefined) change = { step: run.labels.indexOf(change.label) + 1 };
    if (change.finding && change.step === undefined) change.step = breaks(run);
    const next = { ...place, ...change };
    next.step = Math.max(0, Math.min(next.step, run.events.length));
    const jump = next.finding !== place.finding;
    Object.assign(place, next);
    history.replaceState(null, "", hash(place.step));
    render(jump);
  }

  function render(jump) {
    const section = sections[place.finding - 1];
    if (!shown || shown.number !== place.finding || shown.beside !== place.beside) {
      sections.forEach((one) => { one.hidden = one !== section; });
      draw(section);
      document.querySelectorAll("nav a[data-finding]").forEach((link) => {
        if (+link.dataset.finding === place.finding) {
          link.setAttribute("aria-current", "true");
          if (jump) link.scrollIntoView({ block: "nearest" });
        } else link.removeAttribute("aria-current");
      });
    } else shown.update();
    if (jump) section.scrollIntoView({ block: "start" });
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#f']");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    const old = location.hash;
    history.pushState(null, "", link.getAttribute("href"));
    const found = read();
    if (!found) { history.replaceState(null, "", old || location.pathname); return; }
    event.preventDefault();
    if (!link.closest("nav") && found.finding === place.finding) found.beside = found.beside || place.beside;
    const jump = found.finding !== place.finding;
    Object.assign(place, found);
    render(jump);
  });
  window.addEventListener("popstate", () => {
    const found = read();
    if (found) { const jump = found.finding !== place.finding; Object.assign(place, found); render(jump); }
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !sections.length) return;
    if (event.target.closest("select, input, textarea")) return;
    const moves = {
      ArrowLeft: () => go({ step: place.step - 1 }), ArrowRight: () => go({ step: place.step + 1 }),
      Home: () => go({ step: 0 }), End: () => go({ step: Infinity }),
      n: () => place.finding < sections.length && go({ finding: place.finding + 1 }),
      p: () => place.finding > 1 && go({ finding: place.finding - 1 }),
    };
    if (moves[event.key]) { event.preventDefault(); moves[event.key](); }
  });

  for (const block of document.querySelectorAll("pre.command")) {
    if (!navigator.clipboard) break;
    const text = block.textContent;
    const button = make("button", { type: "button", "aria-label": `Copy: ${text}` }, "Copy");
    button.addEventListener("click", () => navigator.clipboard.writeText(text).then(() => { button.textContent = "Copied"; }, () => { button.textContent = "Select it"; }));
    block.append(button);
  }
  const theme = document.getElementById("theme"), themes = ["system", "light", "dark"];
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const now = themes[(themes.indexOf(document.documentElement.dataset.theme || "system") + 1) % 3];
    if (now === "system") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = now;
    theme.textContent = `Theme: ${now}`;
  });
  if (matchMedia("(max-width: 760px)").matches && sections.length > 1) document.getElementById("list").open = false;
  if (sections.length) {
    const found = read();
    Object.assign(place, found || { finding: 1, step: breaks(ownRun(1)) });
    history.replaceState(null, "", hash(place.step));
    render(Boolean(found));
  }
})();
