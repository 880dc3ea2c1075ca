// Calls that are made in parts, because a message has a maximum size.

import { AccelerdError } from "./errors.js";

/** Rows from `start` to before `stop`. */
export interface Part {
    readonly start: number;
    readonly stop: number;
}

/** Splits rows of these sizes into consecutive parts within limits of bytes and rows; a part has at least one row. */
export function partsByBytes(sizes: Iterable<number>, limit: number, maxRows: number): Part[] {
    const parts: Part[] = [];
    let start = 0;
    let held = 0;
    let at = 0;
    for (const size of sizes) {
        if (at > start && (held + size > limit || at - start === maxRows)) {
            parts.push({ start, stop: at });
            start = at;
            held = 0;
        }
        held += size;
        at += 1;
    }
    if (at > start) parts.push({ start, stop: at });
    return parts;
}

/** Calls `run` for each part in order. A part that the daemon rejects as too large is halved. `what` says what was done, for errors. */
export async function inParts<T>(parts: readonly Part[], what: string, run: (part: Part) => Promise<T>): Promise<T[]> {
    const total = parts.at(-1)?.stop ?? 0;
    const left = [...parts];
    const results: T[] = [];
    for (let part = left.shift(); part !== undefined; part = left.shift()) {
        try {
            results.push(await run(part));
        } catch (problem) {
            if (!(problem instanceof AccelerdError)) throw problem;
            const middle = (part.start + part.stop) >> 1;
            if (problem.isTooLarge && middle > part.start) {
                left.unshift({ start: part.start, stop: middle }, { start: middle, stop: part.stop });
            } else {
                throw total > 1 && (part.start > 0 || problem.code === "DEADLINE_EXCEEDED")
                    ? problem.withProgress(part.start, total, what)
                    : problem;
            }
        }
    }
    return results;
}
