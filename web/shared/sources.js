// Where tokens of prompts come from, in the order in which bars show them.

// What a request reused.
export const cachedOf = counts => counts.memory + counts.ram + counts.disk + counts.shared;

// Names in code and for people.
export const SOURCES = [["memory", "model's memory"], ["ram", "RAM"], ["disk", "disk"], ["shared", "shared tier"], ["prefilled", "prefilled"]];

// "RAM, disk".
export const tierNames = tiers => tiers.map(tier => SOURCES.find(([source]) => source === tier)?.[1] ?? tier).join(", ");
