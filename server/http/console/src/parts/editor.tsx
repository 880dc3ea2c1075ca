/** A text with numbers of lines, and a text to read. */

import type { Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

/** A range of characters, to be selected and scrolled to. */
export interface Range {
    start: number;
    end: number;
}

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
    const gutter = useRef<HTMLPreElement>(null);
    useEffect(() => {
        const element = area.current;
        if (!element || !range) return;
        element.setSelectionRange(range.start, range.end);
        const line = element.value.slice(0, range.start).split("\n").length - 1;
        const height = Number.parseFloat(getComputedStyle(element).lineHeight);
        const above = line * height - element.scrollTop;
        if (above < 0 || above > element.clientHeight - 2 * height) element.scrollTop = line * height - element.clientHeight / 3;
    }, [range]);
    const lines = text.value.split("\n").length;
    const numbers = Array.from({ length: lines }, (_, index) => index + 1).join("\n");
    return (
        <div class="editor">
            <pre class="gutter" ref={gutter} aria-hidden="true">{numbers}</pre>
            <textarea ref={area} aria-label={label} rows={rows} wrap="off" spellcheck={false} autocapitalize="off" autocomplete="off"
                value={text.value} onInput={(event) => (text.value = event.currentTarget.value)}
                onScroll={(event) => gutter.current && (gutter.current.scrollTop = event.currentTarget.scrollTop)}
                onKeyDown={(event) => {
                    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || !onSubmit) return;
                    event.preventDefault();
                    onSubmit();
                }} />
        </div>
    );
}

/** Text to read, such as a file. */
export function Listing({ label, text }: { label: string; text: string }) {
    return <pre class="listing" tabIndex={0} role="region" aria-label={label}>{text}</pre>;
}

/** The range of a place that has a line, from 1, and a column in characters, from 0. */
export function rangeAt(text: string, line: number, column: number): Range | undefined {
    if (line < 1) return undefined;
    const lines = text.split("\n");
    const before = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
    const current = lines[line - 1] ?? "";
    const start = before + [...current].slice(0, column).join("").length;
    return { start, end: Math.max(start + 1, before + current.length) };
}
