// Light or dark: as the system says, or as was chosen here.

const NEXT = { system: "light", light: "dark", dark: "system" };

export class Theme {
  constructor(button, redraw) {
    this.button = button;
    this.redraw = redraw;
    this.show(remembered());
    button.onclick = () => this.show(NEXT[document.documentElement.dataset.theme] ?? "system");
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  }

  show(chosen) {
    const theme = chosen in NEXT ? chosen : "system";
    document.documentElement.dataset.theme = theme;
    remember(theme);
    this.button.textContent = `Theme: ${theme}`;
    this.redraw();
  }
}

// A browser that keeps nothing (private, or told so) throws; then the choice lasts as long as the page.
function remembered() {
  try {
    return localStorage.getItem("theme");
  } catch {
    return null;
  }
}

function remember(theme) {
  try {
    localStorage.setItem("theme", theme);
  } catch {
    // As above.
  }
}

/** The colours of the style sheet as they are now, for what is drawn on a canvas. */
export function colours(node, names) {
  const found = {};
  const probe = document.createElement("span");
  probe.hidden = true;
  node.append(probe);
  for (const name of names) {
    probe.className = `ink-${name}`;
    found[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  return found;
}
