// The stored prefixes as a tree: which rows a list of them has, and where a map draws each. Pure.

const byUse = (a, b) => b.heat - a.heat || a.begin - b.begin || (a.id < b.id ? -1 : 1);

// Orders nodes ({id, parent, begin, end, heat, bytes...}) as a walk from the roots, the hottest branch first, and gives
// each its children, its level (how many branchings are above it), the end of its subtree in the order, its subtree's
// bytes and its share of the leaves, [leafBegin, leafEnd). A node whose parent is not there is a root: a reply of the
// server may have left the parent out.
export function layOut(nodes) {
  const made = new Map(nodes.map(node => [node.id, {...node, children: [], level: 0, allBytes: node.bytes}]));
  const roots = [];
  for (const node of made.values()) (made.get(node.parent)?.children ?? roots).push(node);
  const order = [];
  let leaves = 0;
  roots.sort(byUse);
  // No recursion: a conversation of a thousand turns is a thousand deep. A cycle is not reached from any root.
  const stack = [...roots].reverse().map(node => ({node, next: 0}));
  while (stack.length > 0) {
    const frame = stack.at(-1), {node} = frame;
    if (frame.next === 0) {
      node.place = order.length;
      node.leafBegin = leaves;
      order.push(node);
      node.children.sort(byUse);
      if (node.children.length === 0) ++leaves;
    }
    if (frame.next < node.children.length) {
      const child = node.children[frame.next++];
      child.above = node;
      child.level = node.level + (node.children.length > 1 ? 1 : 0);
      stack.push({node: child, next: 0});
      continue;
    }
    // A pin of a line of pieces has the name of the last one.
    if (node.children.length === 1 && node.children[0].pinned) node.pinned = true;
    node.leafEnd = leaves;
    node.subtreeEnd = order.length;
    if (node.above) node.above.allBytes += node.allBytes;
    stack.pop();
  }
  return {order, roots, leaves, byId: new Map(order.map(node => [node.id, node])),
          tokensMax: order.reduce((most, node) => Math.max(most, node.end), 0)};
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

// Nodes to close at first, so that some `most` rows are open: the deepest branchings.
export function closedAtFirst(tree, most) {
  const closed = new Set();
  if (tree.order.length <= most) return closed;
  const levels = [];
  for (const {level} of tree.order) levels[level] = (levels[level] ?? 0) + 1;
  let sum = 0, last = 0;
  while (last < levels.length && (sum += levels[last]) <= most) ++last;
  for (const node of tree.order) if (node.level >= Math.max(last - 1, 0) && node.children.length > 0) closed.add(node.id);
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
