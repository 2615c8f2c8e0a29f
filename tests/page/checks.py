"""Checks of a page that an audit for accessibility would make: contrast, names, width."""

# Roles whose elements people act on or learn from, so that each needs a name.
NAMED_ROLES = {"button", "link", "textbox", "spinbutton", "tree", "treeitem", "progressbar", "image", "meter", "dialog",
               "alertdialog", "navigation", "region", "article"}

# Text whose contrast with what it stands on is below 4.5 to 1, or 3 to 1 if it is large; disabled controls aside.
FAINT_TEXT = """(() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const parse = colour => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
                            const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255]; };
  const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const light = colour => { const [r, g, b] = colour.map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
                            return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = element => { const layers = [];
    for (let one = element; one; one = one.parentElement) { const colour = parse(getComputedStyle(one).backgroundColor); layers.push(colour); if (colour[3] === 1) break; }
    return layers.reverse().reduce((below, top) => over(top, below), parse("Canvas")); };
  const faint = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement, style = getComputedStyle(element), box = element.getBoundingClientRect();
    if (!node.data.trim() || !element.checkVisibility({visibilityProperty: true, opacityProperty: true}) || box.width <= 1 || element.closest(":disabled, script, noscript")) continue;
    const below = ground(element), ink = over(parse(element.closest("svg") ? style.fill : style.color), below);
    const [a, b] = [light(ink), light(below)], ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5) - 0.01) faint.push(`${node.data.trim().slice(0, 40)}: ${ratio.toFixed(2)} (${style.color} on ${below})`);
  }
  return faint;
})()"""

# Elements that stick out to the right of the window, those in a frame that scrolls by itself aside.
TOO_WIDE = """(() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  return [...document.body.querySelectorAll("*")].filter(one => one.getBoundingClientRect().right > width + 1).slice(0, 5).map(one => one.outerHTML.slice(0, 120));
})()"""

REPEATED_IDS = """(() => { const seen = new Set(), twice = [];
  for (const one of document.querySelectorAll("[id]")) { if (seen.has(one.id)) twice.push(one.id); seen.add(one.id); }
  return twice; })()"""


def flaws(tab):
    """What is wrong with the page as it is now; empty if nothing is."""
    nameless = [role for role, name in tab.accessible() if role in NAMED_ROLES and not name.strip()]
    return [f"faint: {one}" for one in tab.run(FAINT_TEXT)] + [f"without a name: {role}" for role in nameless] + \
           [f"too wide: {one}" for one in tab.run(TOO_WIDE)] + [f"id twice: {one}" for one in tab.run(REPEATED_IDS)]
