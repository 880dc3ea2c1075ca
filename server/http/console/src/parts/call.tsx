/** A call that a control starts: its state, and how its failure is shown. */

import { useSignal } from "@preact/signals";
import type { ReadonlySignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Failure } from "../api";
import { time } from "../format";

export interface CallState<T> {
    pending: boolean;
    value?: T;
    failure?: Failure;
    /** How long the last call took, in seconds, as the page saw it. */
    took?: number;
}

export interface Call<A extends unknown[], T> {
    state: ReadonlySignal<CallState<T>>;
    start: (...args: A) => Promise<void>;
    clear: () => void;
}

/** A call of which one runs at a time. A new one, or the end of the view, ends the one before. */
export function useCall<A extends unknown[], T>(run: (signal: AbortSignal, ...args: A) => Promise<T>): Call<A, T> {
    const state = useSignal<CallState<T>>({ pending: false });
    const running = useRef<AbortController | undefined>(undefined);
    useEffect(() => () => running.current?.abort(), []);
    const clear = () => {
        running.current?.abort();
        state.value = { pending: false };
    };
    const start = async (...args: A) => {
        running.current?.abort();
        const own = new AbortController();
        running.current = own;
        const { value } = state.value;
        state.value = value === undefined ? { pending: true } : { pending: true, value };
        const before = performance.now();
        let next: CallState<T>;
        try {
            next = { pending: false, value: await run(own.signal, ...args), took: (performance.now() - before) / 1000 };
        } catch (error) {
            next = { pending: false, failure: Failure.of(error) };
        }
        if (!own.signal.aborted) state.value = next;
    };
    return { state, start, clear };
}

/** A failure as the daemon says it. */
export function Failed({ failure }: { failure: Failure | undefined }) {
    if (!failure) return null;
    const facts = [
        failure.reason,
        failure.field && `field ${failure.field}`,
        failure.status > 0 && `HTTP ${failure.status}`,
        failure.retryAfter && `retry after ${failure.retryAfter} s`,
    ].filter(Boolean);
    return (
        <div class="failure" role="alert">
            <strong>{failure.code}</strong>
            {facts.map((fact) => (
                <span class="fact" key={fact}>
                    {fact}
                </span>
            ))}
            <p>{failure.message}</p>
        </div>
    );
}

/** The state of a call in words, and its failure. */
export function Outcome<T>({
    of,
    busy = "Running…",
    hideTime = false,
}: {
    of: ReadonlySignal<CallState<T>>;
    busy?: string;
    hideTime?: boolean;
}) {
    const { pending, failure, took } = of.value;
    return (
        <>
            <p class={hideTime ? "outcome brief" : "outcome"} role="status">
                {pending ? busy : took !== undefined && !hideTime ? `Answered in ${time(took)}` : ""}
            </p>
            <Failed failure={failure} />
        </>
    );
}
