/** The tree of a source, of the columns in which the daemon returns it. */

import { NodeField, NodeKind, Operator, ValueTag } from "virtual:parse-enums";
import { decode, Positions, u32s } from "./columns";
import type { ParseResponse } from "./wire";

const NONE = 0xffffffff;
const CONTEXTS = ["load", "store", "delete"];
const CONSTANTS: Record<number, string> = { 0xffffffff: "None", 0xfffffffe: "False", 0xfffffffd: "True", 0xfffffffc: "..." };

/** `FUNCTION_DEF` as the class of CPython's `ast`: `FunctionDef`. */
export function pascal(name: string): string {
    return name.replaceAll(/([A-Z])([A-Z0-9]*)_?/g, (_, first: string, rest: string) => first + rest.toLowerCase());
}

const CLASSES = NodeKind.map((name) => (name === "MATCH_STATEMENT" ? "Match" : pascal(name)));
const LOWER = new Set(["Comprehension", "Arg", "Keyword", "Alias", "Withitem"]);

export class Tree {
    readonly count: number;
    private readonly kinds: Uint8Array;
    private readonly fields: Uint8Array;
    private readonly parents: Uint32Array;
    private readonly starts: Uint32Array;
    private readonly ends: Uint32Array;
    private readonly aux: Uint32Array;
    /** The rows without a parent, then the children of each row: those of row n end where those of row n + 1 begin. */
    private readonly childStarts: Uint32Array;
    private readonly children: Uint32Array;
    private readonly names: [Uint32Array, Uint32Array];
    private readonly values: [Uint8Array, Uint32Array, Uint32Array];
    private readonly extra: Uint8Array;

    constructor(
        response: ParseResponse,
        private readonly positions: Positions,
    ) {
        const { nodes, names, values } = response;
        this.kinds = decode(nodes?.kinds);
        this.fields = decode(nodes?.fields);
        this.parents = u32s(nodes?.parents);
        this.starts = u32s(nodes?.starts);
        this.ends = u32s(nodes?.ends);
        this.aux = u32s(nodes?.aux);
        this.names = [u32s(names?.starts), u32s(names?.ends)];
        this.values = [decode(values?.tags), u32s(values?.starts), u32s(values?.ends)];
        this.extra = decode(response.extra);
        this.count = this.kinds.length;
        [this.childStarts, this.children] = this.grouped();
    }

    /** Rows by parent, in the order of the source. */
    private grouped(): [Uint32Array, Uint32Array] {
        const group = (row: number) => (this.parents[row] === NONE ? 0 : this.parents[row]! + 1);
        const starts = new Uint32Array(this.count + 2);
        for (let row = 0; row < this.count; row += 1) starts[group(row) + 1]! += 1;
        for (let at = 1; at < starts.length; at += 1) starts[at]! += starts[at - 1]!;
        const next = starts.slice();
        const children = new Uint32Array(this.count);
        for (let row = 0; row < this.count; row += 1) children[next[group(row)]!++] = row;
        return [starts, children];
    }

    /** The children of a row; the rows of the module for -1. */
    childrenOf(row: number): Uint32Array {
        return this.children.subarray(this.childStarts[row + 1], this.childStarts[row + 2]);
    }

    parentOf(row: number): number {
        return this.parents[row] === NONE ? -1 : this.parents[row]!;
    }

    range(row: number): [number, number] {
        return [this.starts[row]!, this.ends[row]!];
    }

    kind(row: number): string {
        const name = CLASSES[this.kinds[row]!] ?? "?";
        return LOWER.has(name) ? name.toLowerCase() : name === "MatchCase" ? "match_case" : name;
    }

    field(row: number): string {
        return (NodeField[this.fields[row]!] ?? "").toLowerCase();
    }

    private text([starts, ends]: [Uint32Array, Uint32Array], at: number): string {
        const start = starts[at]!;
        const end = ends[at]!;
        const length = this.positions.length;
        return start < length
            ? this.positions.slice(start, end)
            : new TextDecoder().decode(this.extra.subarray(start - length, end - length));
    }

    /** What a row has besides its kind: a name, an operator, a value. */
    detail(row: number): string {
        const aux = this.aux[row]!;
        switch (NodeKind[this.kinds[row]!]) {
            case "NAME":
            case "ATTRIBUTE":
                return `${this.text(this.names, aux >>> 2)} ${CONTEXTS[aux & 3] ?? ""}`;
            case "SUBSCRIPT":
            case "STARRED":
            case "LIST":
            case "TUPLE":
                return CONTEXTS[aux] ?? "";
            case "FUNCTION_DEF":
            case "ASYNC_FUNCTION_DEF":
            case "CLASS_DEF":
            case "ARG":
            case "TYPE_VAR":
            case "PARAM_SPEC":
            case "TYPE_VAR_TUPLE":
            case "IDENTIFIER":
            case "KEYWORD":
            case "EXCEPT_HANDLER":
            case "MATCH_STAR":
            case "MATCH_AS":
            case "MATCH_MAPPING":
                return aux === NONE ? "" : this.text(this.names, aux);
            case "BOOL_OP":
            case "BIN_OP":
            case "UNARY_OP":
            case "AUG_ASSIGN":
            case "COMPARE_OP":
                return pascal(Operator[aux] ?? "");
            case "CONSTANT":
            case "MATCH_SINGLETON":
                return CONSTANTS[aux] ?? this.constant(aux);
            case "IMPORT_FROM":
                return aux ? `level ${aux}` : "";
            case "COMPREHENSION":
                return aux ? "async" : "";
            default:
                return "";
        }
    }

    private constant(at: number): string {
        const [tags, starts, ends] = this.values;
        const text = this.text([starts, ends], at);
        const tag = ValueTag[tags[at]!] ?? "";
        return /STR|BYTES/.test(tag) ? `${tag === "BYTES" ? "b" : ""}${JSON.stringify(text)}` : text;
    }
}

/** The rows to show of a tree of which some rows are open, with their depths. */
export function flatten(tree: Tree, open: (row: number) => boolean): { rows: Uint32Array; depths: Uint16Array } {
    const rows = new Uint32Array(tree.count);
    const depths = new Uint16Array(tree.count);
    let shown = 0;
    // A stack of lists and places in them: a source may be nested deeper than functions may be.
    const stack: [Uint32Array, number][] = [[tree.childrenOf(-1), 0]];
    while (stack.length > 0) {
        const top = stack[stack.length - 1]!;
        const [list, at] = top;
        if (at === list.length) {
            stack.pop();
            continue;
        }
        top[1] += 1;
        const row = list[at]!;
        rows[shown] = row;
        depths[shown] = stack.length - 1;
        shown += 1;
        if (open(row)) stack.push([tree.childrenOf(row), 0]);
    }
    return { rows: rows.subarray(0, shown), depths: depths.subarray(0, shown) };
}
