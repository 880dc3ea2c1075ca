// Parsing of Python sources to trees as columns.

import { type BatchMethods, batches, type Outcome } from "./batches.js";
import type { CallOptions, Caller } from "./caller.js";
import { choice } from "./choices.js";
import { map, mapOutcome } from "./embed.js";
import { malformed } from "./errors.js";
import {
    DiagnosticClass,
    NodeKind,
    ParseMode,
    ParseOutput,
    type ParseRequestSchema,
    type ParseResponse,
    ParseService,
    type SourceResult,
    SourceType,
} from "./generated/accelerd/v1/parse_pb.js";
import type { Init } from "./init.js";
import { inParts, type Part, partsByBytes } from "./parts.js";
import type { Batches } from "./resume.js";
import { arrayOf } from "./tensor.js";

/** A source: text, or the bytes of a file, which are decoded by their byte order mark or encoding cookie. */
export type Source = string | Uint8Array;
export type ParseOutputName = "tree" | "tokens" | "comments" | "outline" | "line_starts";

/** Options of a parse. */
export interface ParseOptions extends CallOptions {
    /** Default: tree. */
    readonly outputs?: readonly ParseOutputName[] | undefined;
    /** Minor version of the grammar, as in `ast.parse(feature_version=(3, n))`; default: the daemon's newest. */
    readonly featureVersion?: number | undefined;
    /** The start rule, as the argument `mode` of `ast.parse`; default exec. */
    readonly mode?: "exec" | "eval" | "single" | undefined;
}

/** Slices of the text, in bytes. */
export interface SpanColumns {
    readonly starts: Uint32Array;
    readonly ends: Uint32Array;
}

/** The nodes of a tree, in the order that proto/accelerd/v1/parse.proto documents. */
export interface NodeColumns extends SpanColumns {
    /** `NodeKind` of each node. */
    readonly kinds: Uint8Array;
    /** `NodeField` of the parent that each node is in. */
    readonly fields: Uint8Array;
    /** Row of the parent; `NO_ROW` at the top level. */
    readonly parents: Uint32Array;
    /** By kind: a name, a value, a context, an `Operator`, ... */
    readonly aux: Uint32Array;
}

/** The values of constants. */
export interface ValueColumns extends SpanColumns {
    /** `ValueTag` of each value. */
    readonly tags: Uint8Array;
}

/** Tokens without comments, newlines and indentation. */
export interface TokenColumns extends SpanColumns {
    /** `TokenKind` of each token. */
    readonly kinds: Uint8Array;
}

/** The first error of a source, as CPython reports it. */
export interface Diagnostic {
    /** The exception, such as SyntaxError. */
    readonly class: string;
    readonly message: string;
    /** From 1; 0 if CPython reports none. */
    readonly line: number;
    /** In characters, from 1; 0 if CPython reports none. */
    readonly column: number;
    /** Bytes of the error in the text. */
    readonly start: number;
    readonly end: number;
}

/** A function, class or import. */
export interface OutlineItem {
    /** FunctionDef, AsyncFunctionDef, ClassDef, Import or ImportFrom. */
    readonly kind: string;
    /** The name; of an import its operand, such as `os.path as p`. */
    readonly name: string;
    /** The name after those of the enclosing functions and classes, such as `Client.connect`. */
    readonly qualifiedName: string;
    /** Bytes of the text, decorators included. */
    readonly start: number;
    readonly end: number;
    /** From 1. */
    readonly line: number;
    readonly endLine: number;
    /** Index of the enclosing function or class; undefined at the top level. */
    readonly parent: number | undefined;
    /** Bytes of the docstring's literal. */
    readonly docstring: { readonly start: number; readonly end: number } | undefined;
}

/** `parents` of a row without a parent, and `aux` without a value. */
export const NO_ROW = 0xffff_ffff;

type Request = Init<typeof ParseRequestSchema>;

/** Bound on the size of a response relative to its request: about 1.7 for trees, and more with tokens. */
const RESPONSE_GROWTH = 4;
const MAX_SOURCES = 65_536;

/** The columns of all sources of a response, and where each source's rows begin. */
class Columns {
    readonly nodes: NodeColumns;
    readonly names: SpanColumns;
    readonly values: ValueColumns;
    readonly tokens: TokenColumns;
    readonly comments: SpanColumns;
    readonly lineStarts: Uint32Array;
    readonly extra: Uint8Array;

    constructor({ nodes, names, values, tokens, comments, lineStarts, extra }: ParseResponse) {
        const none = new Uint8Array();
        this.nodes = {
            kinds: nodes?.kinds ?? none,
            fields: nodes?.fields ?? none,
            parents: arrayOf("u32", nodes?.parents ?? none),
            aux: arrayOf("u32", nodes?.aux ?? none),
            ...spans(nodes),
        };
        this.names = spans(names);
        this.values = { tags: values?.tags ?? none, ...spans(values) };
        this.tokens = { kinds: tokens?.kinds ?? none, ...spans(tokens) };
        this.comments = spans(comments);
        this.lineStarts = arrayOf("u32", lineStarts);
        this.extra = extra;
    }
}

function spans(message: { starts: Uint8Array; ends: Uint8Array } | undefined): SpanColumns {
    const none = new Uint8Array();
    return { starts: arrayOf("u32", message?.starts ?? none), ends: arrayOf("u32", message?.ends ?? none) };
}

/** Returns the rows from `start` to before `stop` of all columns, without a copy. */
function rows<T extends object>(columns: T, start: number, stop: number): T {
    const sliced = Object.entries(columns).map(([name, column]: [string, Uint8Array | Uint32Array]) => {
        if (stop > column.length) throw malformed(`the column ${name} has ${column.length} rows, expected at least ${stop}`);
        return [name, column.subarray(start, stop)];
    });
    return Object.fromEntries(sliced) as T;
}

const COUNTS = {
    nodes: "nodeCount",
    names: "nameCount",
    values: "valueCount",
    extra: "extraSize",
    lineStarts: "lineCount",
    tokens: "tokenCount",
    comments: "commentCount",
} as const;

/** Which output of a parse has a column. */
const OUTPUT_OF = { nodes: "tree", names: "tree", values: "tree", tokens: "tokens", comments: "comments" } as const;

/** Where the rows of a source begin. */
type Offsets = Record<keyof typeof COUNTS, number>;

/** The result of a source. Outputs that the call did not request throw. */
export class Parsed {
    constructor(
        /** The source as UTF-8, to which all positions refer. */
        readonly text: Uint8Array,
        private readonly result: SourceResult,
        private readonly columns: Columns,
        private readonly offsets: Readonly<Offsets>,
        private readonly outputs: ReadonlySet<ParseOutputName>,
    ) {}

    /** Whether the source is valid Python. */
    get isValid(): boolean {
        return this.result.diagnostic === undefined;
    }

    /** The first error; undefined if the source is valid. */
    get diagnostic(): Diagnostic | undefined {
        const found = this.result.diagnostic;
        if (found === undefined) return undefined;
        const { message, line, column, start, end } = found;
        return { class: pascal(DiagnosticClass[found.class] ?? ""), message, line, column, start, end };
    }

    /** The nodes. A source with an error has none. */
    get nodes(): NodeColumns {
        return this.#slice("nodes");
    }

    /** Slices of the text, followed by `extra`, that `aux` refers to; `name` decodes one. */
    get names(): SpanColumns {
        return this.#slice("names");
    }

    /** The values of constants that `aux` refers to; `value` decodes one. */
    get values(): ValueColumns {
        return this.#slice("values");
    }

    /** A source with an error has the tokens before the error. */
    get tokens(): TokenColumns {
        return this.#slice("tokens");
    }

    /** Comments, from `#` to the end of the line. */
    get comments(): SpanColumns {
        return this.#slice("comments");
    }

    /** The start of each line. */
    get lineStarts(): Uint32Array {
        if (!this.outputs.has("tree")) this.#require("line_starts");
        const start = this.offsets.lineStarts;
        return this.columns.lineStarts.subarray(start, start + this.result.lineCount);
    }

    /** Functions, classes and imports, in source order. */
    get outline(): OutlineItem[] {
        this.#require("outline");
        const items: OutlineItem[] = [];
        for (const { kind, name, start, end, line, endLine, parent, docstringStart, docstringEnd } of this.result.outline) {
            const enclosing = parent === undefined ? undefined : items[parent];
            items.push({
                kind: pascal(NodeKind[kind] ?? ""),
                name,
                qualifiedName: enclosing === undefined ? name : `${enclosing.qualifiedName}.${name}`,
                start,
                end,
                line,
                endLine,
                parent: enclosing === undefined ? undefined : parent,
                docstring: docstringEnd === 0 ? undefined : { start: docstringStart, end: docstringEnd },
            });
        }
        return items;
    }

    /** The name at an index that `aux` has. */
    name(index: number): string {
        return this.#decode(this.names, index);
    }

    /** The value at an index that `aux` has: a number as it is written, or the decoded text of a string. */
    value(index: number): string {
        return this.#decode(this.values, index);
    }

    /** The text between two positions. */
    slice(start: number, end: number): string {
        return new TextDecoder().decode(this.text.subarray(start, end));
    }

    #decode({ starts, ends }: SpanColumns, index: number): string {
        const [start, end] = [starts[index], ends[index]];
        if (start === undefined || end === undefined) throw new RangeError(`expected an index below ${starts.length}, got ${index}`);
        const beyond = start - this.text.length;
        if (beyond < 0) return this.slice(start, end);
        const { extra } = this.offsets;
        return new TextDecoder().decode(this.columns.extra.subarray(extra + beyond, extra + end - this.text.length));
    }

    #slice<K extends keyof typeof OUTPUT_OF>(name: K): Columns[K] {
        this.#require(OUTPUT_OF[name]);
        const start = this.offsets[name];
        return rows(this.columns[name], start, start + this.result[COUNTS[name]]);
    }

    #require(output: ParseOutputName): void {
        if (!this.outputs.has(output))
            throw new Error(`the output "${output}" was not requested: parse(sources, { outputs: ["${output}"] })`);
    }
}

/** FUNCTION_DEF as FunctionDef. */
function pascal(name: string): string {
    return name.replace(/(?:^|_)([A-Z])([A-Z]*)/g, (_, first: string, rest: string) => first + rest.toLowerCase());
}

function encoded(sources: readonly Source[]): { bytes: Uint8Array[]; types: SourceType[] } {
    const encoder = new TextEncoder();
    const bytes = sources.map((source, at) => {
        if (typeof source === "string") return encoder.encode(source);
        if (source instanceof Uint8Array) return source;
        throw new TypeError(`sources[${at}]: expected a string or a Uint8Array, got ${typeof source}`);
    });
    return { bytes, types: sources.map((source) => (typeof source === "string" ? SourceType.TEXT : SourceType.FILE)) };
}

function common(options: ParseOptions): Request & { outputs: ParseOutput[] } {
    const outputs = (options.outputs ?? ["tree"]).map((output) => choice("outputs", ParseOutput, output));
    return { outputs, featureVersion: options.featureVersion ?? 0, mode: choice("mode", ParseMode, options.mode) };
}

function read(response: ParseResponse, sources: readonly Uint8Array[], options: ParseOptions): Parsed[] {
    if (response.results.length !== sources.length) throw malformed(`${response.results.length} results of ${sources.length} sources`);
    const columns = new Columns(response);
    const outputs = new Set<ParseOutputName>(options.outputs ?? ["tree"]);
    let offsets: Offsets = { nodes: 0, names: 0, values: 0, extra: 0, lineStarts: 0, tokens: 0, comments: 0 };
    return response.results.map((result, at) => {
        const parsed = new Parsed(result.text ?? sources[at]!, result, columns, offsets, outputs);
        const next = Object.entries(COUNTS).map(([name, count]) => [name, offsets[name as keyof Offsets] + result[count]]);
        offsets = Object.fromEntries(next) as Offsets;
        return parsed;
    });
}

export async function parse(caller: Caller, sources: readonly Source[], options: ParseOptions): Promise<Parsed[]> {
    const { bytes, types } = encoded(sources);
    const context = caller.context(options);
    const message = common(options);
    const limit = Math.floor(caller.settings.maxMessageBytes / RESPONSE_GROWTH);
    const parts = partsByBytes(
        bytes.map(({ length }) => length),
        limit,
        MAX_SOURCES,
    );
    const results = await inParts(parts, "sources were parsed", async ({ start, stop }: Part) => {
        const part = bytes.slice(start, stop);
        const request = { ...message, sources: part, sourceTypes: types.slice(start, stop) };
        return read(await caller.call(ParseService.method.parse, request, context), part, options);
    });
    return results.flat();
}

const PARSE_BATCHES: BatchMethods<
    (typeof ParseService.method.parse)["input"],
    (typeof ParseService.method.parse)["output"],
    (typeof ParseService.method.parseStream)["input"],
    (typeof ParseService.method.parseStream)["output"]
> = { stream: ParseService.method.parseStream, unary: ParseService.method.parse, field: "parse", isOrdered: false };

export async function* parseStream(
    caller: Caller,
    sources: Batches<readonly Source[]>,
    options: ParseOptions,
): AsyncGenerator<Outcome<Parsed[]>, void, undefined> {
    const message = common(options);
    const sent: Uint8Array[][] = [];
    const requests = map(sources, (batch): Request => {
        const { bytes, types } = encoded(batch);
        sent.push(bytes);
        return { ...message, sources: bytes, sourceTypes: types };
    });
    for await (const outcome of batches(caller, PARSE_BATCHES, requests, caller.context(options, Infinity))) {
        const bytes = sent[outcome.sequence] ?? [];
        sent[outcome.sequence] = [];
        yield mapOutcome(outcome, (response) => read(response, bytes, options));
    }
}
