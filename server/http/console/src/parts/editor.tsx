/** A text with numbers of lines, and a text to read. */

import { useComputed, useSignal } from "@preact/signals";
import type { Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

/** A range of characters of a text, to be marked and scrolled to. */
export interface Range {
    of: string;
    start: number;
    end: number;
}

/** Lines of a range that are marked. */
const MOST_MARKED = 400;

/** Height of a line in pixels, as the style has it. */
const LINE = 18;

interface Props {
    label: string;
    text: Signal<string>;
    rows?: number;
    /** A range to show. */
    range?: Range | undefined;
    onSubmit?: () => void;
}

export function Editor({ label, text, rows = 16, range, onSubmit }: Props) {
    const area = useRef<HTMLTextAreaElement>(null);
    const top = useSignal(0);
    const marks = useRef<HTMLPreElement>(null);
    const valid = range?.of === text.value ? range : undefined;
    const before = valid ? text.value.lastIndexOf("\n", valid.start - 1) + 1 : 0;
    const line = valid ? text.value.slice(0, before).split("\n").length - 1 : 0;
    // What stands beside or under the text follows it.
    const follow = () => {
        const { scrollTop = 0, scrollLeft = 0 } = area.current ?? {};
        top.value = scrollTop;
        if (marks.current) marks.current.style.transform = `translate(${-scrollLeft}px, ${line * LINE - scrollTop}px)`;
    };
    useEffect(() => {
        const element = area.current;
        if (!element || !valid) return;
        element.setSelectionRange(valid.start, valid.end);
        const above = line * LINE - element.scrollTop;
        if (above < 0 || above > element.clientHeight - 2 * LINE) element.scrollTop = line * LINE - element.clientHeight / 3;
        follow();
    }, [valid]);
    return (
        <div class="editor">
            <Gutter text={text} top={top} />
            <div class="behind" aria-hidden="true">
                {valid && (
                    <pre ref={marks}>
                        {text.value.slice(before, valid.start)}
                        <mark>{text.value.slice(valid.start, valid.end).split("\n", MOST_MARKED).join("\n")}</mark>
                    </pre>
                )}
            </div>
            <textarea
                ref={area}
                aria-label={label}
                rows={rows}
                wrap="off"
                spellcheck={false}
                autocapitalize="off"
                autocomplete="off"
                value={text.value}
                onInput={(event) => (text.value = event.currentTarget.value)}
                onScroll={follow}
                onKeyDown={(event) => {
                    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || !onSubmit) return;
                    event.preventDefault();
                    onSubmit();
                }}
            />
        </div>
    );
}

/** Lines that the gutter has numbers of. No editor is higher. */
const NUMBERED = 150;

/** The numbers of the lines in view. */
function Gutter({ text, top }: { text: Signal<string>; top: Signal<number> }) {
    const lines = useComputed(() => text.value.split("\n").length);
    const first = Math.floor(top.value / LINE);
    const numbers = Array.from({ length: Math.max(0, Math.min(NUMBERED, lines.value - first)) }, (_, at) => first + at + 1);
    return (
        <div class="gutter" aria-hidden="true">
            <pre style={{ transform: `translateY(${first * LINE - top.value}px)` }}>{numbers.join("\n")}</pre>
        </div>
    );
}

/** Text to read, such as a file. */
export function Listing({ label, text }: { label: string; text: string }) {
    return (
        <pre class="listing" tabIndex={0} role="region" aria-label={label}>
            {text}
        </pre>
    );
}

/** The range of a place that has a line, from 1, and a column in characters, from 0. */
export function rangeAt(text: string, line: number, column: number): Range | undefined {
    if (line < 1) return undefined;
    const lines = text.split("\n");
    const before = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
    const current = lines[line - 1] ?? "";
    const start = before + [...current].slice(0, column).join("").length;
    return { of: text, start, end: Math.max(start + 1, before + current.length) };
}
