// Timeouts, and the clock that they and retries go by.

/** A timeout of more than a day means no deadline: `grpc-timeout` has eight digits, and timers of JavaScript overflow. */
export const MAX_TIMEOUT_MS = 86_400_000;

/** What retries and deadlines depend on. */
export interface Clock {
    /** Monotonic time in milliseconds. */
    now(): number;
    /** A number from 0 to 1, excluding 1. */
    random(): number;
    /** Waits. Rejects with the reason of the signal if it is aborted before. */
    sleep(milliseconds: number, signal?: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
    now: () => performance.now(),
    random: Math.random,
    sleep: (milliseconds, signal) =>
        new Promise((resolve, reject) => {
            if (signal?.aborted) {
                reject(signal.reason);
                return;
            }
            const abort = () => {
                clearTimeout(timer);
                reject(signal?.reason);
            };
            const timer = setTimeout(() => {
                signal?.removeEventListener("abort", abort);
                resolve();
            }, milliseconds);
            signal?.addEventListener("abort", abort, { once: true });
        }),
};

/** Returns a timeout in milliseconds; infinity means no deadline. */
export function checkedTimeout(timeoutMs: number): number {
    if (typeof timeoutMs !== "number" || !(timeoutMs >= 0)) {
        throw new RangeError(`timeoutMs: expected a number of milliseconds of at least 0, got ${String(timeoutMs)}`);
    }
    return timeoutMs > MAX_TIMEOUT_MS ? Infinity : timeoutMs;
}
