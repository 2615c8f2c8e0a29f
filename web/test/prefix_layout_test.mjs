import assert from "node:assert/strict";
import {test} from "node:test";
import {closedAtFirst, layingOut, layOut, nodeAt, Prefix, rectanglesOf, rowsOf} from "../page/prefix_layout.js";

// A generator whose seed is printed, so that a failure can be repeated.
const seed = Number(process.env.KVKEEP_TEST_SEED ?? Math.floor(Math.random() * 2 ** 31));
console.log(`KVKEEP_TEST_SEED=${seed}`);
let state = seed;
const below = most => { state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 1; return state % most; };

const node = (id, parent, begin, end, heat = 1, more = {}) => new Prefix(id, parent, begin, end, end - begin, heat, more);
function randomTree(count) {
  const nodes = [node(1, 0, 0, 5)];
  for (let id = 2; id <= count; ++id) {
    const above = below(8) === 0 ? null : nodes[below(nodes.length)], begin = above?.end ?? 0;
    nodes.push(node(id, above?.id ?? 0, begin, begin + 1 + below(50), below(10) / 10));
  }
  return nodes.sort(() => below(3) - 1);
}

// The same by recursion, as one would say it.
function naive(nodes) {
  const sorted = list => list.sort((a, b) => b.heat - a.heat || a.begin - b.begin || (a.id < b.id ? -1 : 1));
  const childrenOf = id => sorted(nodes.filter(one => one.parent === id));
  const order = [];
  const walk = (one, level, depth) => {
    order.push([one.id, level, depth]);
    const children = childrenOf(one.id);
    for (const child of children) walk(child, level + (children.length > 1 ? 1 : 0), depth + 1);
  };
  const known = new Set(nodes.map(one => one.id));
  for (const root of sorted(nodes.filter(one => !known.has(one.parent)))) walk(root, 0, 0);
  return order;
}
const bytesBelow = (nodes, id) => nodes.filter(one => one.parent === id).reduce((sum, one) => sum + bytesBelow(nodes, one.id), nodes.find(one => one.id === id).bytes);

test("the order, levels and sizes are those of a plain walk", () => {
  for (let round = 0; round < 200; ++round) {
    const nodes = randomTree(1 + below(40)), tree = layOut(nodes);
    assert.deepEqual(tree.order.map(one => [one.id, one.level, one.depth]), naive(nodes));
    for (const [place, one] of tree.order.entries()) {
      assert.equal(one.place, place);
      assert.equal(tree.byId.get(one.id), one);
      assert.equal((one.above?.children ?? tree.roots)[one.sibling - 1], one);
      assert.equal(one.allBytes, bytesBelow(nodes, one.id));
      assert.ok(one.leafEnd > one.leafBegin);
    }
    assert.equal(tree.leaves, tree.order.filter(one => one.children.length === 0).length);
  }
});

test("closed nodes hide their subtrees and nothing else", () => {
  for (let round = 0; round < 100; ++round) {
    const tree = layOut(randomTree(30)), closed = new Set(tree.order.filter(() => below(3) === 0).map(one => one.id));
    const hidden = one => { for (let above = one.above; above; above = above.above) if (closed.has(above.id)) return true; return false; };
    assert.deepEqual(rowsOf(tree, closed), tree.order.filter(one => !hidden(one)));
    assert.deepEqual(rowsOf(tree, new Set()), tree.order);
  }
  const large = layOut(randomTree(3_000));
  assert.ok(rowsOf(large, closedAtFirst(large, 200)).length <= Math.max(200, large.roots.length));
  assert.equal(closedAtFirst(layOut(randomTree(20)), 200).size, 0);
  // One conversation that branches everywhere: rows come in the order of their depth, as many as fit.
  const bushy = layOut(Array.from({length: 3_000}, (_, i) => node(i + 1, (i + 2) >> 2, i, i + 1)));
  const rows = rowsOf(bushy, closedAtFirst(bushy, 200));
  assert.ok(rows.length > 195 && rows.length <= 200, `${rows.length} rows`);
  assert.ok(Math.max(...rows.map(one => one.depth)) <= 4);
});

test("a pin of the end of a line is one of the line, up to a branching", () => {
  const pinned = node(4, 3, 15, 20, 1, {pinned: true});
  const tree = layOut([node(1, 0, 0, 5), node(2, 1, 5, 10), node(3, 1, 5, 15), pinned, node(5, 4, 20, 25)]);
  assert.deepEqual(tree.order.filter(one => one.pinned).map(one => one.id).sort(), [3, 4]);
});

test("a deep tree, a lost parent and a cycle do no harm", () => {
  const deep = Array.from({length: 50_000}, (_, i) => node(i + 1, i, i, i + 1));
  assert.equal(layOut(deep).order.length, 50_000);
  assert.deepEqual(layOut([node(5, 4, 10, 20)]).roots.map(one => one.id), [5]);
  const circular = layOut([node(1, 2, 0, 1), node(2, 1, 1, 2), node(3, 0, 0, 1)]);
  assert.deepEqual(circular.order.map(one => one.id), [3]);
  assert.deepEqual([...circular.byId.keys()], [3]);
  assert.deepEqual(layOut([]).order, []);
});

test("the map shows each node that is large enough, within its frame", () => {
  for (let round = 0; round < 50; ++round) {
    const tree = layOut(randomTree(1 + below(300))), focus = below(2) === 0 ? null : tree.order[below(tree.order.length)];
    const rectangles = rectanglesOf(tree, focus, 500, 200);
    for (const one of rectangles) {
      assert.ok(one.x >= -0.01 && one.x + one.width <= 500.6, `${one.x} ${one.width}`);
      assert.ok(one.y >= -0.01 && one.y + one.height <= 200.6);
      if (one.height >= 2 && one.width >= 2) assert.equal(nodeAt(rectangles, one.x + one.width / 2, one.y + 0.5 * one.height), one.node);
    }
    const inside = tree.order.slice(focus?.place ?? 0, focus?.subtreeEnd ?? tree.order.length);
    if (inside.length < 150) assert.equal(rectangles.length, inside.length);
  }
  assert.equal(nodeAt([], 1, 1), null);
});

test("ten thousand nodes make no more rectangles than there is room for", () => {
  const tree = layOut(randomTree(10_000));
  assert.ok(rectanglesOf(tree, null, 1_200, 260).length < 10_000);
});

test("nodes have one shape, and get no further members", () => {
  const nodes = randomTree(50), before = Object.keys(nodes[0]);
  for (const one of layOut(nodes).order) assert.deepEqual(Object.keys(one), before);
});

test("a tree that is laid out again is the same", () => {
  const nodes = randomTree(200), first = JSON.stringify(layOut(nodes).order.map(one => [one.id, one.level, one.allBytes, one.subtreeEnd]));
  assert.equal(JSON.stringify(layOut(nodes).order.map(one => [one.id, one.level, one.allBytes, one.subtreeEnd])), first);
});

test("the layout of a large tree is many small steps", () => {
  let steps = 0;
  for (const _ of layingOut(randomTree(10_000))) ++steps;
  assert.ok(steps >= 50, `${steps}`);
});
