/** A source, its tokens, and its tree. */

import { useComputed, useSignal } from "@preact/signals";
import type { Signal } from "@preact/signals";
import { TokenKind } from "virtual:parse-enums";
import { call } from "../api";
import { decode, encode, Positions, u32s, utf8 } from "../columns";
import { bytes, count, words } from "../format";
import { Outcome, useCall } from "../parts/call";
import { Editor } from "../parts/editor";
import type { Range } from "../parts/editor";
import { Field, Section, Table } from "../parts/layout";
import { Rows } from "../parts/rows";
import { Tabs } from "../parts/tabs";
import { flatten, pascal, Tree } from "../tree";
import type { Diagnostic, OutlineItem, ParseResponse } from "../wire";

const SAMPLE = `import math


class Circle:
    """A circle around the origin."""

    def __init__(self, radius: float) -> None:
        self.radius = radius

    def area(self) -> float:
        return math.pi * self.radius ** 2


def largest(circles):
    return max(circles, key=lambda one: one.area())
`;

const MODES: [string, string][] = [
    ["PARSE_MODE_EXEC", "Module"],
    ["PARSE_MODE_EVAL", "Expression"],
    ["PARSE_MODE_SINGLE", "Interactive"],
];

/** The source outlives the view. */
const source = { text: undefined as Signal<string> | undefined };

interface Parsed {
    positions: Positions;
    tree: Tree;
    tokens: { kinds: Uint8Array; starts: Uint32Array; ends: Uint32Array };
    outline: OutlineItem[];
    diagnostic: Diagnostic | undefined;
}

export function Parse() {
    const own = useSignal(SAMPLE);
    const text = (source.text ??= own);
    const mode = useSignal("PARSE_MODE_EXEC");
    const version = useSignal("14");
    const range = useSignal<Range | undefined>(undefined);
    const parse = useCall(async (signal): Promise<Parsed> => {
        range.value = undefined;
        const positions = new Positions(text.value);
        const response = await call<ParseResponse>(
            "ParseService/Parse",
            {
                sources: [encode(utf8(text.value))],
                sourceTypes: ["SOURCE_TYPE_TEXT"],
                mode: mode.value,
                featureVersion: Number(version.value),
                outputs: ["PARSE_OUTPUT_TREE", "PARSE_OUTPUT_TOKENS", "PARSE_OUTPUT_OUTLINE"],
            },
            signal,
        );
        const { tokens, results } = response;
        const diagnostic = results[0]?.diagnostic;
        if (diagnostic && diagnostic.end >= diagnostic.start)
            select(positions, diagnostic.start, Math.max(diagnostic.end, diagnostic.start + 1));
        return {
            positions,
            diagnostic,
            tree: new Tree(response, positions),
            outline: results[0]?.outline ?? [],
            tokens: { kinds: decode(tokens?.kinds), starts: u32s(tokens?.starts), ends: u32s(tokens?.ends) },
        };
    });
    const select = (positions: Positions, start: number, end: number) => {
        // The text may have changed since it was parsed.
        if (positions.text === text.value) range.value = { of: text.value, start: positions.index(start), end: positions.index(end) };
    };
    const parsed = parse.state.value.value;
    const show = (start: number, end: number) => parsed && select(parsed.positions, start, end);
    return (
        <div class="halves">
            <Section title="Source" note={`${bytes(text.value.length)}, Python`}>
                <form
                    class="controls"
                    aria-label="Parse"
                    onSubmit={(event) => {
                        event.preventDefault();
                        void parse.start();
                    }}
                >
                    <Field label="As">
                        {(id) => (
                            <select id={id} value={mode.value} onChange={(event) => (mode.value = event.currentTarget.value)}>
                                {MODES.map(([value, name]) => (
                                    <option key={value} value={value}>
                                        {name}
                                    </option>
                                ))}
                            </select>
                        )}
                    </Field>
                    <Field label="Grammar of Python">
                        {(id) => (
                            <select id={id} value={version.value} onChange={(event) => (version.value = event.currentTarget.value)}>
                                {[14, 13, 12, 11, 10, 9, 8].map((minor) => (
                                    <option key={minor} value={minor}>
                                        3.{minor}
                                    </option>
                                ))}
                            </select>
                        )}
                    </Field>
                    <button type="submit" disabled={parse.state.value.pending}>
                        Parse
                    </button>
                </form>
                <Editor label="Python source" text={text} rows={24} range={range.value} onSubmit={() => void parse.start()} />
            </Section>
            <Section title="Result">
                <Outcome of={parse.state} busy="Parsing…" />
                {parsed?.diagnostic && <Problem of={parsed.diagnostic} />}
                {parsed && (
                    <Tabs
                        label="Parts of the result"
                        tabs={[
                            {
                                name: "Tree",
                                note: count(parsed.tree.count),
                                panel: () => <TreeRows key={parsed.positions.text} tree={parsed.tree} show={show} />,
                            },
                            { name: "Tokens", note: count(parsed.tokens.kinds.length), panel: () => <Tokens of={parsed} show={show} /> },
                            { name: "Outline", note: count(parsed.outline.length), panel: () => <Outline of={parsed.outline} /> },
                        ]}
                    />
                )}
                {!parsed && !parse.state.value.pending && (
                    <p class="empty">Parse the source to see its tokens and its tree. Ctrl+Enter does it too.</p>
                )}
            </Section>
        </div>
    );
}

function Problem({ of }: { of: Diagnostic }) {
    return (
        <div class="failure" role="alert">
            <strong>{pascal(of.class.replace("DIAGNOSTIC_CLASS_", ""))}</strong>
            {of.line > 0 && (
                <span class="fact">
                    line {of.line}, column {of.column}
                </span>
            )}
            <p>{of.message}</p>
        </div>
    );
}

/** Small trees are open at first, others closed. */
const OPEN_AT_FIRST = 1000;

function TreeRows({ tree, show }: { tree: Tree; show: (start: number, end: number) => void }) {
    // Rows that are not as all are at first.
    const toggled = useSignal<{ open: boolean; rows: Set<number> }>({ open: tree.count <= OPEN_AT_FIRST, rows: new Set() });
    const active = useSignal(-1);
    const isOpen = (row: number) => toggled.value.open !== toggled.value.rows.has(row);
    const shown = useComputed(() => flatten(tree, isOpen));
    const toggle = (row: number) => {
        const rows = new Set(toggled.value.rows);
        if (!rows.delete(row)) rows.add(row);
        toggled.value = { ...toggled.value, rows };
    };
    const activate = (index: number) => {
        active.value = index;
        show(...tree.range(shown.value.rows[index]!));
    };
    const all = (open: boolean) => {
        active.value = -1;
        toggled.value = { open, rows: new Set() };
    };
    const onKey = (key: string, index: number): boolean => {
        const row = shown.value.rows[index]!;
        const hasChildren = tree.childrenOf(row).length > 0;
        if (key === "ArrowRight" && hasChildren && !isOpen(row)) toggle(row);
        else if (key === "ArrowRight" && hasChildren) activate(index + 1);
        else if (key === "ArrowLeft" && hasChildren && isOpen(row)) toggle(row);
        else if (key === "ArrowLeft" && tree.parentOf(row) >= 0) activate(shown.value.rows.indexOf(tree.parentOf(row)));
        else if (key === "Enter" && hasChildren) toggle(row);
        else return false;
        return true;
    };
    const siblings = (row: number) => tree.childrenOf(tree.parentOf(row));
    return (
        <>
            <div class="controls">
                <button type="button" class="quiet" onClick={() => all(true)}>
                    Open all
                </button>
                <button type="button" class="quiet" onClick={() => all(false)}>
                    Close all
                </button>
            </div>
            <Rows
                label="Tree"
                role="tree"
                class="tall tree"
                height={22}
                count={shown.value.rows.length}
                empty="The tree has no nodes."
                active={active.value}
                onActive={activate}
                onKey={onKey}
                attributes={(index) => {
                    const row = shown.value.rows[index]!;
                    return {
                        "aria-level": shown.value.depths[index]! + 1,
                        "aria-setsize": siblings(row).length,
                        "aria-posinset": siblings(row).indexOf(row) + 1,
                        ...(tree.childrenOf(row).length > 0 && { "aria-expanded": isOpen(row) }),
                    };
                }}
                render={(index) => {
                    const row = shown.value.rows[index]!;
                    const [start, end] = tree.range(row);
                    const hasChildren = tree.childrenOf(row).length > 0;
                    return (
                        <>
                            <span class="indent" style={{ width: `${Math.min(shown.value.depths[index]!, 40) * 14}px` }} />
                            <span
                                class="twist"
                                aria-hidden="true"
                                onClick={(event) => {
                                    event.stopPropagation();
                                    if (hasChildren) toggle(row);
                                }}
                            >
                                {hasChildren ? (isOpen(row) ? "▾" : "▸") : ""}
                            </span>
                            <span class="of">{tree.field(row)}</span>
                            <span class="kind">{tree.kind(row)}</span>
                            <span class="detail">{tree.detail(row).slice(0, 200)}</span>
                            <span class="side">
                                {start}–{end}
                            </span>
                        </>
                    );
                }}
            />
        </>
    );
}

function Tokens({ of, show }: { of: Parsed; show: (start: number, end: number) => void }) {
    const { kinds, starts, ends } = of.tokens;
    const active = useSignal(-1);
    return (
        <Rows
            label="Tokens"
            role="listbox"
            class="tall tree"
            height={22}
            count={kinds.length}
            empty="There are no tokens."
            active={active.value}
            onActive={(index) => {
                active.value = index;
                show(starts[index]!, ends[index]!);
            }}
            render={(index) => (
                <>
                    <span class="rank">{index}</span>
                    <span class="of">{words(TokenKind[kinds[index]!], "")}</span>
                    <span class="kind">
                        {of.positions.slice(starts[index]!, Math.min(ends[index]!, starts[index]! + 200)).replaceAll("\n", "⏎")}
                    </span>
                    <span class="side">
                        {starts[index]}–{ends[index]}
                    </span>
                </>
            )}
        />
    );
}

const MOST_OUTLINED = 500;

function Outline({ of }: { of: OutlineItem[] }) {
    const rows = of
        .slice(0, MOST_OUTLINED)
        .map((item) => [
            item.name,
            words(item.kind, "NODE_KIND_"),
            item.parent === undefined ? "" : (of[item.parent]?.name ?? ""),
            `${item.line}–${item.endLine}`,
        ]);
    return (
        <>
            <Table label="Outline" rows={rows} columns={["Name", "Kind", "In", "#Lines"]} empty="No functions, classes or imports." />
            {of.length > MOST_OUTLINED && (
                <p class="note">
                    The first {count(MOST_OUTLINED)} of {count(of.length)}.
                </p>
            )}
        </>
    );
}
