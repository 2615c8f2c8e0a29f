// What the figures of a report say together. Pure.

import {fixed, measured} from "../shared/text.js";

export const failed = request => request.error !== "" || request.status < 200 || request.status > 299;
export const known = (request, count) => count === 0 && failed(request) ? null : count;
export const serverOf = run => run.server + (run.variant ? ` (${run.variant})` : "");
export const titleOf = run => run.title || run.workload;
export const isAboveBound = run => run.bound !== null && run.totals.ratio !== null && run.totals.ratio > run.bound;
export const isRefused = run => Boolean(run.refused);
export const isAnswered = run => !isRefused(run) && run.requests.some(request => !failed(request));
export const sumOf = (run, key) => run.requests.reduce((sum, request) => sum + request[key], 0);

export const refusalsOf = report => report.runs.filter(isRefused).map(run => `${run.workload} on ${serverOf(run)}: ${run.refused}`);

export function problemsOf(report) {
  const found = [];
  for (const run of report.runs) {
    const place = `${run.workload} on ${serverOf(run)}: `;
    found.push(...run.problems.map(problem => place + problem));
    if (isAboveBound(run)) found.push(`${place}ratio ${fixed(run.totals.ratio, 3)} is above its bound ${measured(run.bound)}`);
  }
  for (const part of report.parts) {
    if (part.holds === false) found.push(`${part.name}: ${measured(part.median)} ${part.unit} misses its goal ${part.goal}`);
  }
  return [...found, ...report.problems];
}

// Runs of one workload side by side, in the order played.
export function byWorkload(report) {
  const groups = new Map();
  for (const run of report.runs) groups.set(run.workload, [...(groups.get(run.workload) ?? []), run]);
  return [...groups.values()];
}

// Places of the requests to show: of every group of neighbours the one with the highest score.
export function thinned(requests, most, score) {
  const groups = Math.min(most, requests.length);
  return Array.from({length: groups}, (_, group) => {
    let best = Math.floor(group * requests.length / groups);
    for (let i = best; i < Math.floor((group + 1) * requests.length / groups); ++i) {
      if (score(requests[i]) > score(requests[best])) best = i;
    }
    return best;
  });
}
export const excess = request => request.prefilled_tokens - request.ideal_tokens;
export const badness = request => failed(request) ? Infinity : excess(request);
export const slowness = request => failed(request) ? Infinity : request.ttft_ms ?? 0;
