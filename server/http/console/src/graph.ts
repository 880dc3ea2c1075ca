/** Graphs of tensor operations as a person writes them, in JSON; and where their nodes stand in a picture. */

import { nested, written } from "./tensor";
import type { Tensor } from "./tensor";

type Attribute = boolean | number | string | number[];

export interface GraphNode {
    name: string;
    op: string;
    inputs: string[];
    attributes?: Record<string, Attribute>;
}

export interface Graph {
    /** Nested lists or numbers, which are f32; such as `random(2, 3)`; or an element type and one of those. */
    inputs: Record<string, unknown>;
    nodes: GraphNode[];
    outputs: string[];
}

/** Reads a graph, and says where it is none. */
export function read(text: string): Graph {
    const graph = JSON.parse(text) as Partial<Graph>;
    const { inputs = {}, nodes, outputs } = graph;
    if (!Array.isArray(nodes)) throw new Error("the graph: expected a list of nodes in `nodes`");
    nodes.forEach((node, at) => {
        const isNode = typeof node?.name === "string" && typeof node.op === "string" && Array.isArray(node.inputs ?? []);
        if (!isNode) throw new Error(`nodes[${at}]: expected {"name": …, "op": …, "inputs": […]}`);
    });
    const read = nodes.map((node) => ({ ...node, inputs: (node.inputs ?? []).map(String) }));
    return { inputs, nodes: read, outputs: Array.isArray(outputs) ? outputs.map(String) : read.slice(-1).map((node) => node.name) };
}

function input(name: string, value: unknown): Tensor {
    if (typeof value === "object" && value !== null && "value" in value) {
        const { dtype = "f32", value: inner } = value as { dtype?: string; value: unknown };
        return tensorOf(name, inner, `DTYPE_${dtype.toUpperCase()}`);
    }
    return tensorOf(name, value, "DTYPE_F32");
}

function tensorOf(name: string, value: unknown, dtype: string): Tensor {
    return typeof value === "string" ? written(value, dtype) : nested(value, dtype, `inputs.${name}`);
}

function attribute(value: Attribute): object {
    if (Array.isArray(value)) return { integers: { values: value } };
    if (typeof value === "boolean") return { boolean: value };
    if (typeof value === "string") return { text: value };
    return Number.isInteger(value) ? { integer: value } : { number: value };
}

/** The request that runs a graph. */
export function request(graph: Graph): object {
    return {
        inputs: Object.entries(graph.inputs).map(([name, value]) => ({ name, value: input(name, value) })),
        nodes: graph.nodes.map(({ name, op, inputs, attributes = {} }) => ({
            name,
            op,
            inputs,
            attributes: Object.fromEntries(Object.entries(attributes).map(([own, value]) => [own, attribute(value)])),
        })),
        outputs: graph.outputs.map((name) => ({ name })),
    };
}

export interface Placed {
    /** The name; empty for a place that an edge passes. */
    name: string;
    /** The operation; empty for an input. */
    op: string;
    column: number;
    row: number;
}

export interface Picture {
    placed: Placed[];
    /** Each edge with the places that it passes. */
    edges: Placed[][];
    columns: number;
    rows: number;
}

/** Places each node in the column after the last of what it reads, near the rows of what it reads. */
export function place(graph: Graph): Picture {
    const columnOf = columnsOf(graph);
    const ops = new Map(graph.nodes.map((node) => [node.name, node.op]));
    const columns: Placed[][] = [];
    const put = (name: string, column: number): Placed => {
        const placed = { name, op: ops.get(name) ?? "", column, row: 0 };
        (columns[column] ??= []).push(placed);
        return placed;
    };
    const nodes = new Map([...columnOf].map(([name, column]) => [name, put(name, column)]));
    const edges = graph.nodes.flatMap(({ name, inputs }) =>
        [...new Set(inputs.map(source))].flatMap((from): Placed[][] => {
            const [start, end] = [nodes.get(from), nodes.get(name)];
            if (!start || !end) return [];
            const between = Array.from({ length: Math.max(0, end.column - start.column - 1) }, (_, at) => put("", start.column + 1 + at));
            return [[start, ...between, end]];
        }),
    );
    // Rows by the mean of those before.
    const before = new Map<Placed, Placed[]>();
    for (const edge of edges) edge.slice(1).forEach((one, at) => before.set(one, [...(before.get(one) ?? []), edge[at]!]));
    for (const column of columns) {
        const mean = (one: Placed) => {
            const from = before.get(one) ?? [];
            return from.length ? from.reduce((sum, other) => sum + other.row, 0) / from.length : 0;
        };
        column.sort((a, b) => mean(a) - mean(b)).forEach((one, row) => (one.row = row));
        column.forEach((one) => (one.row += (Math.max(...columns.map((other) => other.length)) - column.length) / 2));
    }
    return { placed: [...nodes.values()], edges, columns: columns.length, rows: Math.max(1, ...columns.map((column) => column.length)) };
}

function columnsOf(graph: Graph): Map<string, number> {
    const columns = new Map<string, number>(Object.keys(graph.inputs).map((name) => [name, 0]));
    // The columns of a cycle would grow without end; the daemon says so when the graph is run.
    for (let left = graph.nodes.length; left > 0; left -= 1) {
        let changed = false;
        for (const { name, inputs } of graph.nodes) {
            const column = Math.min(Math.max(-1, ...inputs.map((one) => columns.get(source(one)) ?? 0)) + 1, graph.nodes.length);
            changed ||= columns.get(name) !== column;
            columns.set(name, column);
        }
        if (!changed) break;
    }
    // Columns without a node are left out.
    const used = [...new Set(columns.values())].sort((a, b) => a - b);
    return new Map([...columns].map(([name, column]) => [name, used.indexOf(column)]));
}

/** The node of a result: `NAME:1` is of NAME. */
function source(name: string): string {
    return name.replace(/:\d+$/, "");
}
