// The messages of a stream, which are kept until they are answered, so that another call can send them again.

import { malformed } from "./errors.js";

/** Numbered messages of a stream, for one call after another. */
export class SentMessages<T> {
    readonly #kept = new Map<number, T>();
    /** Of ordered messages, those that follow one without a response. */
    readonly #answered = new Set<number>();
    #unsent: T[] = [];
    #attempt = 0;
    #count = 0;
    #hasEnded = false;

    /** `isOrdered` says that messages are sent again from the first without a response on, since later ones may replace its effects. */
    constructor(private readonly isOrdered: boolean) {}

    /** Begins a call. Returns its number. */
    begin(): number {
        this.#attempt += 1;
        this.#unsent = [...this.#kept.values()];
        return this.#attempt;
    }

    /** Returns whether no other call has begun. */
    isCurrent(attempt: number): boolean {
        return attempt === this.#attempt;
    }

    /** Returns the next message to send again; undefined if all are sent. */
    take(): T | undefined {
        return this.#unsent.shift();
    }

    /** Adds the next message, of the sequence that it returns. */
    keep(make: (sequence: number) => T): void {
        const sequence = this.#count;
        const message = make(sequence);
        this.#count += 1;
        this.#kept.set(sequence, message);
        this.#unsent.push(message);
    }

    /** Notes that there are no further messages. */
    end(): void {
        this.#hasEnded = true;
    }

    /** Processes a response. Returns whether it is the first to its message. */
    answered(sequence: number): boolean {
        if (!this.#kept.has(sequence)) {
            // It was answered in an earlier call, and what preceded it in this one.
            if (this.isOrdered && sequence < this.#count) return false;
            throw malformed(`unexpected sequence ${sequence}`);
        }
        if (!this.isOrdered) return this.#kept.delete(sequence);
        const isNew = !this.#answered.has(sequence);
        this.#answered.add(sequence);
        for (const first of this.#kept.keys()) {
            if (!this.#answered.delete(first)) break;
            this.#kept.delete(first);
        }
        return isNew;
    }

    /** Whether all messages are answered. */
    get isComplete(): boolean {
        return this.#hasEnded && this.#kept.size === 0;
    }
}

/** Either kind of iterable. */
export type Batches<T> = Iterable<T> | AsyncIterable<T>;

/** The items of a stream's input, pulled by one call after another: what a call that ended was waiting for belongs to the next one. */
export class Input<T> {
    readonly #items: Iterator<T> | AsyncIterator<T>;
    #pulling: Promise<boolean> | undefined;

    constructor(items: Batches<T>) {
        this.#items = Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]();
    }

    /** Passes the next item to `keep`. Returns false at the end. */
    pull(keep: (item: T) => void): Promise<boolean> {
        this.#pulling ??= this.#next(keep).finally(() => {
            this.#pulling = undefined;
        });
        return this.#pulling;
    }

    async #next(keep: (item: T) => void): Promise<boolean> {
        const { done, value } = await this.#items.next();
        if (done !== true) keep(value);
        return done !== true;
    }

    /** Ends the input before its end. It may be waiting for an item, so its own end is not awaited. */
    close(): void {
        void Promise.resolve(this.#items.return?.()).catch(() => undefined);
    }
}
