// The stored prefixes as a tree: which rows a list of them has, and where a map draws each. Pure.

const byUse = (a, b) => b.heat - a.heat || a.begin - b.begin || (a.id < b.id ? -1 : 1);
const STEP = 500;  // nodes of one step of layingOut(): well below a millisecond

// One stored prefix: what the server says of it, and its place in the tree. All members are set here: engines turn objects
// that get members later into slow ones, and ten thousand of those cost a tenth of a second.
export class Prefix {
  constructor(id, parent, begin, end, bytes, heat, {name = "", tiers = [], idleS = 0, uses = 0, points = 0, pinned = false, kept = false} = {}) {
    this.id = id;
    this.parent = parent;
    this.begin = begin;
    this.end = end;
    this.bytes = bytes;
    this.heat = heat;
    this.name = name;
    this.tiers = tiers;
    this.idleS = idleS;
    this.uses = uses;
    this.points = points;
    this.pinned = pinned;
    this.kept = kept;
    this.clear();
  }

  // Forgets its place.
  clear() {
    this.above = null;
    this.children = [];
    this.depth = 0;        // how many nodes are above it
    this.level = 0;        // how many branchings are above it
    this.sibling = 0;      // of those with the same parent, the hottest is 1
    this.allBytes = this.bytes;
    this.place = 0;        // in the order; its subtree ends at subtreeEnd
    this.subtreeEnd = 0;
    this.leafBegin = 0;    // its share of the leaves
    this.leafEnd = 0;
  }
}

// Orders nodes as a walk from the roots, the hottest branch first, and gives each its place. A node whose parent is not
// there is a root: a reply of the server may have left the parent out. Yields now and then, so that other tasks can have
// the thread in between; returns the tree.
export function* layingOut(nodes) {
  const byId = new Map(), roots = [], order = [];
  let steps = 0, leaves = 0;
  for (const node of nodes) {
    node.clear();
    byId.set(node.id, node);
    if (++steps % STEP === 0) yield;
  }
  for (const node of byId.values()) {
    (byId.get(node.parent)?.children ?? roots).push(node);
    if (++steps % STEP === 0) yield;
  }
  roots.sort(byUse);
  roots.forEach((node, i) => { node.sibling = i + 1; });
  yield;
  // No recursion: a conversation of a thousand turns is a thousand deep. A cycle is not reached from any root.
  const waiting = [...roots].reverse();  // the next one last; null: the subtree of the last of `open` is complete
  const open = [];
  while (waiting.length > 0) {
    const node = waiting.pop();
    if (node === null) {
      complete(open.pop(), order.length, leaves);
      continue;
    }
    node.place = order.length;
    node.leafBegin = leaves;
    order.push(node);
    open.push(node);
    waiting.push(null);
    const {children} = node;
    if (children.length === 0) ++leaves;
    if (children.length > 1) children.sort(byUse);
    for (let i = children.length - 1; i >= 0; --i) {
      const child = children[i];
      child.above = node;
      child.sibling = i + 1;
      child.depth = node.depth + 1;
      child.level = node.level + (children.length > 1 ? 1 : 0);
      waiting.push(child);
    }
    if (++steps % STEP === 0) yield;
  }
  // Those of a cycle are in no order.
  if (order.length < byId.size) for (const node of [...byId.values()]) if (order[node.place] !== node) byId.delete(node.id);
  return {order, roots, leaves, byId};
}

function complete(node, subtreeEnd, leafEnd) {
  node.subtreeEnd = subtreeEnd;
  node.leafEnd = leafEnd;
  // A pin of a line of pieces has the name of the last one.
  if (node.children.length === 1 && node.children[0].pinned) node.pinned = true;
  if (node.above) node.above.allBytes += node.allBytes;
}

// The same without pauses.
export function layOut(nodes) {
  const steps = layingOut(nodes);
  let step = steps.next();
  while (!step.done) step = steps.next();
  return step.value;
}

// The rows of a list in which the nodes of `closed` (ids) hide their subtrees.
export function rowsOf(tree, closed) {
  const rows = [];
  for (let place = 0; place < tree.order.length;) {
    const node = tree.order[place];
    rows.push(node);
    place = closed.has(node.id) ? node.subtreeEnd : place + 1;
  }
  return rows;
}

// Nodes to close at first, so that at most `most` rows are shown, or the roots: those further from the roots, and of equally
// far ones the colder.
export function closedAtFirst(tree, most) {
  const closed = new Set();
  if (tree.order.length <= most) return closed;
  const shown = [...tree.roots], open = new Set();
  for (let at = 0; at < shown.length; ++at) {
    const {id, children} = shown[at];
    if (shown.length + children.length > most) continue;
    open.add(id);
    shown.push(...children);
  }
  for (const node of tree.order) if (node.children.length > 0 && !open.has(node.id)) closed.add(node.id);
  return closed;
}

// Rectangles of the map of the subtree `focus` (null: all), as {node, x, y, width, height} in a frame of this size: a token's
// position goes to the right, branches lie below each other. Nodes too thin to be seen are joined with the first at
// their place, so that the number of rectangles is bounded by the frame's pixels, not by the tree.
export function rectanglesOf(tree, focus, width, height) {
  const from = focus?.begin ?? 0;
  const first = focus?.place ?? 0, last = focus?.subtreeEnd ?? tree.order.length;
  let to = from + 1;
  for (let place = first; place < last; ++place) to = Math.max(to, tree.order[place].end);
  const leafBegin = focus?.leafBegin ?? 0, leaves = Math.max((focus?.leafEnd ?? tree.leaves) - leafBegin, 1);
  const xScale = width / (to - from), yScale = height / leaves;
  const rectangles = [];
  const drawnTo = new Float64Array(Math.ceil(height) + 1).fill(-1);  // per line of pixels: the right end so far
  for (let place = first; place < last; ++place) {
    const node = tree.order[place];
    const x = (node.begin - from) * xScale, y = (node.leafBegin - leafBegin) * yScale;
    const right = (node.end - from) * xScale, tall = (node.leafEnd - node.leafBegin) * yScale;
    const row = Math.floor(y);
    if (tall < 1 && right <= drawnTo[row]) continue;
    if (tall < 1) drawnTo[row] = right;
    rectangles.push({node, x, y, width: Math.max(right - x, 0.5), height: Math.max(tall, 0.5)});
  }
  return rectangles;
}

// The node drawn at a point; null: none. The deepest of those there, which was drawn last.
export function nodeAt(rectangles, x, y) {
  for (let i = rectangles.length - 1; i >= 0; --i) {
    const one = rectangles[i];
    if (x >= one.x && x < one.x + one.width && y >= one.y && y < one.y + Math.max(one.height, 1)) return one.node;
  }
  return null;
}
