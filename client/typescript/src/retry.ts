// Which failed calls are retried, and when: until their deadline and within a budget.

import type { AccelerdError } from "./errors.js";
import type { Clock } from "./timeout.js";

/** Bounds of the first backoff and of any, in milliseconds. */
export const FIRST_WAIT_MS = 50;
export const MAX_WAIT_MS = 2_000;
/** Time for which a call without a deadline is retried, from its first failure. */
export const WITHOUT_DEADLINE_MS = 60_000;

const PER_CALL = 0.2;
/** Retries that are earned with time, so that clients with few calls can retry. */
const PER_SECOND = 1;
/** Retries of a new client, and the most that are earned with time. */
const RESERVE = 10;
/** The most retries that are kept for later. */
const MAX = 1_000;

/**
 * The retries of a client, so that clients of a failing daemon do not multiply its load.
 *
 * Each call earns a fifth of a retry. Unlike in Finagle's RetryBudget, a retry without a token is not refused: it waits for the tokens
 * that are earned with time, so that a call survives as long as its deadline permits.
 */
export class RetryBudget {
    /** Negative if retries wait. */
    #balance = RESERVE;
    #updated: number;

    constructor(private readonly clock: Clock) {
        this.#updated = clock.now();
    }

    /** Earns the retries of a call. */
    deposit(): void {
        this.#balance = Math.min(this.#balance + PER_CALL, MAX);
    }

    /** Takes a retry. Returns the milliseconds until it may be made. */
    withdraw(): number {
        const now = this.clock.now();
        const earned = ((now - this.#updated) / 1_000) * PER_SECOND;
        this.#updated = now;
        if (this.#balance < RESERVE) this.#balance = Math.min(this.#balance + earned, RESERVE);
        this.#balance -= 1;
        return Math.max(-this.#balance / PER_SECOND, 0) * 1_000;
    }

    /** Returns a retry that is not made. */
    putBack(): void {
        this.#balance = Math.min(this.#balance + 1, MAX);
    }
}

/** What bounds the attempts of a call. */
export interface AttemptOptions {
    /** By the clock; infinity means none. */
    readonly deadline: number;
    /** Maximum number of attempts; infinity means that only the deadline bounds them. */
    readonly limit: number;
    readonly isIdempotent: boolean;
}

/**
 * The attempts of a call.
 *
 * UNAVAILABLE is retried, which includes broken connections, and RESOURCE_EXHAUSTED with RetryInfo. A call that is not idempotent is
 * retried only where the daemon did not execute it: with RetryInfo, or if no connection could be made. The backoff is exponential with full
 * jitter, after the delay of RetryInfo. Attempts that reach no daemon do not count in the budget.
 */
export class Attempts {
    #failed = 0;
    #failingSince: number | undefined;

    constructor(
        private readonly clock: Clock,
        private readonly budget: RetryBudget,
        private readonly options: AttemptOptions,
    ) {
        budget.deposit();
    }

    /** Counts anew, after a response of a stream. */
    progressed(): void {
        this.#failed = 0;
        this.#failingSince = undefined;
    }

    /** Returns the milliseconds until the next attempt. Throws the problem if it is final. */
    wait(problem: AccelerdError): number {
        this.#failed += 1;
        const now = this.clock.now();
        this.#failingSince ??= now;
        const { deadline, limit } = this.options;
        const end = deadline === Infinity ? this.#failingSince + WITHOUT_DEADLINE_MS : deadline;
        if (this.#failed >= limit || !this.#mayRepeat(problem)) throw problem;
        const bound = Math.min(FIRST_WAIT_MS * 2 ** Math.min(this.#failed - 1, 20), MAX_WAIT_MS);
        const wait = (problem.retryDelayMs ?? 0) + this.clock.random() * bound;
        if (now + wait >= end) throw problem;
        if (!problem.isSent) return wait;
        const budgeted = Math.max(wait, this.budget.withdraw());
        if (now + budgeted < end) return budgeted;
        this.budget.putBack();
        throw problem;
    }

    #mayRepeat(problem: AccelerdError): boolean {
        if (problem.isTooLarge) return false;
        const isHinted = problem.retryDelayMs !== undefined;
        if (problem.code === "UNAVAILABLE") return this.options.isIdempotent || isHinted || !problem.isSent;
        return problem.code === "RESOURCE_EXHAUSTED" && isHinted;
    }
}
