/** A list of any length, of which only the rows in view are elements. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren, HTMLAttributes } from "preact";
import { useEffect, useId, useLayoutEffect, useRef } from "preact/hooks";

const OVERSCAN = 6;
/** Browsers draw no element that is higher than some tens of millions of pixels. */
const MOST_PIXELS = 15_000_000;

interface Props {
    label: string;
    role: "list" | "listbox" | "tree";
    count: number;
    /** Height of a row in pixels. */
    height: number;
    render: (index: number) => ComponentChildren;
    /** More attributes of a row. */
    attributes?: (index: number) => HTMLAttributes<HTMLDivElement>;
    /** The selected row, and what selects one. */
    active?: number;
    onActive?: (index: number) => void;
    /** Handles a key that does not move; returns whether it did. */
    onKey?: (key: string, index: number) => boolean;
    class?: string;
    empty?: string;
}

const ITEM = { list: "listitem", listbox: "option", tree: "treeitem" } as const;

export function Rows(props: Props) {
    const { label, role, count, height, render, attributes, active = -1, onActive, onKey, empty = "Nothing to show." } = props;
    const id = useId();
    const box = useRef<HTMLDivElement>(null);
    const top = useSignal(0);
    const seen = useSignal(400);
    const shown = Math.min(count, Math.floor(MOST_PIXELS / height));

    useLayoutEffect(() => {
        if (!box.current) return;
        const observer = new ResizeObserver(([entry]) => (seen.value = entry!.contentRect.height));
        observer.observe(box.current);
        return () => observer.disconnect();
    }, [count === 0]);

    const reveal = (index: number) => {
        const element = box.current;
        if (!element) return;
        if (index * height < element.scrollTop) element.scrollTop = index * height;
        else if ((index + 1) * height > element.scrollTop + element.clientHeight)
            element.scrollTop = (index + 1) * height - element.clientHeight;
    };
    useEffect(() => {
        if (active >= 0) reveal(active);
    }, [active]);

    if (count === 0) return <p class="empty">{empty}</p>;

    const page = Math.max(1, Math.floor(seen.value / height) - 1);
    // A list that became shorter is scrolled to its end.
    const from = Math.max(0, Math.min(top.value, shown * height - seen.value));
    const first = Math.max(0, Math.floor(from / height) - OVERSCAN);
    const last = Math.min(shown, Math.ceil((from + seen.value) / height) + OVERSCAN);

    const onKeyDown = (event: KeyboardEvent) => {
        const moves: Record<string, number> = {
            ArrowDown: active + 1,
            ArrowUp: active - 1,
            PageDown: active + page,
            PageUp: active - page,
            Home: 0,
            End: shown - 1,
        };
        const to = moves[event.key];
        if (to !== undefined && onActive) onActive(Math.max(0, Math.min(shown - 1, to)));
        else if (!onKey || active < 0 || !onKey(event.key, active)) return;
        event.preventDefault();
    };

    const list = (
        <div
            class={`rows ${props.class ?? ""}`}
            style={{ "--content": `${shown * height + 2}px` }}
            role={role}
            aria-label={label}
            tabIndex={0}
            ref={box}
            onKeyDown={onKeyDown}
            onScroll={(event) => (top.value = event.currentTarget.scrollTop)}
            aria-activedescendant={onActive && active >= first && active < last ? `${id}-${active}` : undefined}
        >
            <div role="presentation" class="extent" style={{ height: `${shown * height}px` }}>
                <div role="presentation" class="window" style={{ transform: `translateY(${first * height}px)` }}>
                    {Array.from({ length: Math.max(0, last - first) }, (_, at) => first + at).map((index) => (
                        <div
                            key={index}
                            id={`${id}-${index}`}
                            role={ITEM[role]}
                            class="row"
                            style={{ height: `${height}px` }}
                            aria-setsize={role === "tree" ? undefined : count}
                            aria-posinset={role === "tree" ? undefined : index + 1}
                            aria-selected={onActive && role !== "list" ? index === active : undefined}
                            aria-current={onActive && role === "list" && index === active ? "true" : undefined}
                            onClick={onActive && (() => onActive(index))}
                            {...attributes?.(index)}
                        >
                            {render(index)}
                        </div>
                    ))}
                </div>
            </div>
        </div>
    );
    return shown < count ? (
        <>
            {list}
            <p class="note">
                The first {shown.toLocaleString("en-US")} of {count.toLocaleString("en-US")}.
            </p>
        </>
    ) : (
        list
    );
}
