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
            name, op, inputs,
            attributes: Object.fromEntries(Object.entries(attributes).map(([own, value]) => [own, attribute(value)])),
        })),
        outputs: graph.outputs.map((name) => ({ name })),
    };
}

export interface Placed {
    name: string;
    /** The operation; empty for an input. */
    op: string;
    column: number;
    row: number;
}

export interface Picture {
    placed: Placed[];
    edges: [Placed, Placed][];
    columns: number;
    rows: number;
}

/** Places each node in the column after the last of what it reads. */
export function place(graph: Graph): Picture {
    const nodes = new Map(graph.nodes.map((node) => [node.name, node]));
    const columns = new Map<string, number>(Object.keys(graph.inputs).map((name) => [name, 0]));
    // A node of a cycle never gets a column; the daemon says so when the graph is run.
    for (let left = graph.nodes.length; left > 0; left -= 1) {
        let changed = false;
        for (const { name, inputs } of graph.nodes) {
            const before = inputs.map((one) => columns.get(source(one)) ?? 0);
            const column = Math.min(Math.max(-1, ...before) + 1, graph.nodes.length);
            if (columns.get(name) !== column) changed = true;
            columns.set(name, column);
        }
        if (!changed) break;
    }
    const rows: number[] = [];
    const placed = new Map<string, Placed>();
    for (const [name, column] of columns) {
        const row = rows[column] ?? 0;
        rows[column] = row + 1;
        placed.set(name, { name, op: nodes.get(name)?.op ?? "", column, row });
    }
    const edges = graph.nodes.flatMap(({ name, inputs }) => inputs.flatMap((one): [Placed, Placed][] => {
        const from = placed.get(source(one));
        const to = placed.get(name);
        return from && to ? [[from, to]] : [];
    }));
    return { placed: [...placed.values()], edges, columns: rows.length, rows: Math.max(1, ...rows.map((n) => n ?? 0)) };
}

/** The node of a result: `NAME:1` is of NAME. */
function source(name: string): string {
    return name.replace(/:\d+$/, "");
}
