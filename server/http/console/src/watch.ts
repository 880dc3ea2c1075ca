/** The statistics of the daemon, sampled each second while the page is visible. */

import { signal } from "@preact/signals";
import { call, Failure, setToken, stream } from "./api";
import type { Stats } from "./wire";

const KEPT = 120;
const RETRIES = [1, 2, 5, 10];

/** The last samples, the newest last. */
export const samples = signal<Stats[]>([]);
/** Why there are no new samples. */
export const lost = signal<Failure | undefined>(undefined);
/** Why the daemon refuses the token, or the lack of one. */
export const refused = signal<Failure | undefined>(undefined);

let running: AbortController | undefined;

function isRefusal(failure: Failure): boolean {
    return failure.status === 401 || failure.status === 403;
}

async function sample(own: AbortController): Promise<void> {
    for (let attempt = 0; !own.signal.aborted; attempt += 1) {
        let failure = new Failure(0, "UNREACHABLE", "The daemon ended the stream of statistics.");
        try {
            for await (const { stats } of stream<{ stats: Stats }>("DeviceService/Watch", [{ interval: "1s" }], own.signal)) {
                attempt = 0;
                lost.value = undefined;
                refused.value = undefined;
                // Counters start again with a new process.
                const before = samples.value.filter((one) => Number.parseFloat(one.uptime) < Number.parseFloat(stats.uptime));
                samples.value = [...before, stats].slice(-KEPT);
            }
        } catch (error) {
            failure = Failure.of(error);
        }
        if (own.signal.aborted) return;
        if (isRefusal(failure)) {
            refused.value = failure;
            return;
        }
        lost.value = failure;
        const wait = RETRIES[Math.min(attempt, RETRIES.length - 1)]!;
        await new Promise((resolve) => setTimeout(resolve, wait * 1000));
    }
}

/** Begins to sample, or begins again with another token. */
export function watch(): void {
    running?.abort();
    running = undefined;
    if (document.hidden) return;
    running = new AbortController();
    void sample(running);
}

document.addEventListener("visibilitychange", watch);

/** Takes a token if the daemon accepts it; otherwise fails, and the token before stays. */
export async function signIn(text: string, signal: AbortSignal): Promise<void> {
    await call("DeviceService/ListDevices", {}, signal, text);
    setToken(text);
    refused.value = undefined;
    watch();
}

export function signOut(): void {
    setToken("");
    samples.value = [];
    watch();
}

/** The value of a counter in each interval between samples, per second. */
export function rates(of: Stats[], counter: (stats: Stats) => number): number[] {
    return of.slice(1).map((stats, index) => {
        const before = of[index]!;
        const elapsed = (Date.parse(stats.sampleTime) - Date.parse(before.sampleTime)) / 1000;
        return elapsed > 0 ? Math.max(0, counter(stats) - counter(before)) / elapsed : 0;
    });
}
