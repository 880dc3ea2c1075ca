import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { AccelerdError, type ErrorFields, type StatusCode } from "../src/errors.js";
import { Attempts, RetryBudget } from "../src/retry.js";
import type { Clock } from "../src/timeout.js";

/** A clock that stands still, and the largest jitter but for an instant. */
function fakeClock(jitter = 1 - 2 ** -52): Clock & { time: number } {
    return {
        time: 0,
        now() {
            return this.time;
        },
        random: () => jitter,
        sleep: () => Promise.resolve(),
    };
}

const problem = (code: StatusCode, fields: ErrorFields = {}) => new AccelerdError(code, "no", fields);

function attempts(clock: Clock, { isIdempotent = true, deadline = 60_000, limit = Infinity } = {}): Attempts {
    return new Attempts(clock, new RetryBudget(clock), { deadline, limit, isIdempotent });
}

const CODES: StatusCode[] = [
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

function isRetried(failed: AccelerdError, isIdempotent: boolean): boolean {
    try {
        attempts(fakeClock(), { isIdempotent }).wait(failed);
        return true;
    } catch (thrown) {
        assert.equal(thrown, failed);
        return false;
    }
}

describe("which calls are retried", () => {
    test("idempotent ones where the daemon is unavailable", () => {
        assert.deepEqual(
            CODES.filter((code) => isRetried(problem(code), true)),
            ["UNAVAILABLE"],
        );
    });

    test("any with RetryInfo where the daemon is unavailable or exhausted", () => {
        for (const isIdempotent of [true, false]) {
            assert.deepEqual(
                CODES.filter((code) => isRetried(problem(code, { retryDelayMs: 7 }), isIdempotent)),
                ["RESOURCE_EXHAUSTED", "UNAVAILABLE"],
            );
        }
    });

    test("others only where the call was not sent", () => {
        assert.equal(isRetried(problem("UNAVAILABLE"), false), false);
        assert.equal(isRetried(problem("UNAVAILABLE", { isSent: false }), false), true);
    });

    test("never what exceeds a message", () => {
        assert.equal(isRetried(problem("RESOURCE_EXHAUSTED", { retryDelayMs: 7, reason: "MESSAGE_TOO_LARGE" }), true), false);
    });
});

describe("when calls are retried", () => {
    test("the backoff doubles from 50 ms to 2 s with full jitter", () => {
        const waits = (jitter: number) => {
            const tried = attempts(fakeClock(jitter));
            return Array.from({ length: 8 }, () => Math.round(tried.wait(problem("UNAVAILABLE"))));
        };
        assert.deepEqual(waits(1 - 2 ** -52), [50, 100, 200, 400, 800, 1600, 2000, 2000]);
        assert.deepEqual(waits(0.5), [25, 50, 100, 200, 400, 800, 1000, 1000]);
        assert.deepEqual(waits(0), [0, 0, 0, 0, 0, 0, 0, 0]);
    });

    test("after the delay of RetryInfo", () => {
        assert.equal(Math.round(attempts(fakeClock()).wait(problem("UNAVAILABLE", { retryDelayMs: 300 }))), 350);
    });

    test("a retry that cannot start before the deadline is not made", () => {
        const late = problem("UNAVAILABLE", { retryDelayMs: 60_000 });
        assert.throws(() => attempts(fakeClock(0)).wait(late), late);
        assert.equal(attempts(fakeClock(0), { deadline: 60_001 }).wait(late), 60_000);
    });

    test("a call without a deadline is retried for a minute from its first failure, and anew after progress", () => {
        const clock = fakeClock(0);
        const tried = attempts(clock, { deadline: Infinity });
        clock.time = 100_000;
        assert.equal(tried.wait(problem("UNAVAILABLE")), 0);
        clock.time = 159_999;
        assert.equal(tried.wait(problem("UNAVAILABLE")), 0);
        clock.time = 160_000;
        assert.throws(() => tried.wait(problem("UNAVAILABLE")), AccelerdError);
        tried.progressed();
        assert.equal(tried.wait(problem("UNAVAILABLE")), 0);
    });

    test("attempts may be bounded", () => {
        const tried = attempts(fakeClock(), { limit: 2 });
        tried.wait(problem("UNAVAILABLE"));
        assert.throws(() => tried.wait(problem("UNAVAILABLE")), AccelerdError);
    });
});

/** The retries that need not wait. */
function free(budget: RetryBudget): number {
    let count = 0;
    while (budget.withdraw() === 0) count += 1;
    return count;
}

describe("the budget of a client", () => {
    test("a thousand calls earn two hundred retries beyond the reserve", () => {
        const budget = new RetryBudget(fakeClock());
        for (let call = 0; call < 1_000; call += 1) budget.deposit();
        assert.ok([209, 210].includes(free(budget)));
    });

    test("retries beyond it are spread over time", () => {
        const clock = fakeClock();
        const budget = new RetryBudget(clock);
        assert.equal(free(budget), 10);
        // One was taken by the check.
        assert.equal(budget.withdraw(), 2_000);
        assert.equal(budget.withdraw(), 3_000);
        budget.putBack();
        assert.equal(budget.withdraw(), 3_000);
        clock.time = 4_000;
        assert.equal(budget.withdraw(), 0);
    });

    test("an idle client earns its reserve and no more", () => {
        const clock = fakeClock();
        const budget = new RetryBudget(clock);
        assert.equal(free(budget), 10);
        clock.time = 3_600_000;
        assert.equal(free(budget), 10);
        for (let call = 0; call < 10_000; call += 1) budget.deposit();
        assert.equal(free(budget), 1_000);
    });

    test("attempts that reach no daemon are free, and others wait for it", () => {
        const clock = fakeClock(0);
        const budget = new RetryBudget(clock);
        free(budget);
        const tried = new Attempts(clock, budget, { deadline: 60_000, limit: Infinity, isIdempotent: true });
        assert.equal(tried.wait(problem("UNAVAILABLE", { isSent: false })), 0);
        assert.ok(tried.wait(problem("UNAVAILABLE")) > 1_000);
    });

    test("a retry that would wait beyond the deadline is given back", () => {
        const clock = fakeClock(0);
        const budget = new RetryBudget(clock);
        free(budget);
        const tried = new Attempts(clock, budget, { deadline: 1_000, limit: Infinity, isIdempotent: true });
        const before = budget.withdraw();
        budget.putBack();
        assert.throws(() => tried.wait(problem("UNAVAILABLE")), AccelerdError);
        assert.equal(budget.withdraw(), before);
    });
});
