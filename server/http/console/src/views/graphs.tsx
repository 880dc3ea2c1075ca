/** Graphs of tensor operations: their nodes, and a run. */

import { useComputed, useSignal } from "@preact/signals";
import type { Signal } from "@preact/signals";
import { call, Failure } from "../api";
import { count } from "../format";
import { place, read, request } from "../graph";
import type { Graph, Placed } from "../graph";
import { Failed, Outcome, useCall } from "../parts/call";
import { Editor } from "../parts/editor";
import { Field, Section } from "../parts/layout";
import { Rows } from "../parts/rows";
import { TensorView } from "../parts/tensor";
import type { Tensor } from "../tensor";

const SAMPLE = `{
  "inputs": {
    "x": "random(4, 8)",
    "w": "random(8, 8)",
    "b": [0, 0.5, 0, 0.5, 0, 0.5, 0, 0.5]
  },
  "nodes": [
    { "name": "product", "op": "matmul", "inputs": ["x", "w"] },
    { "name": "sum", "op": "add", "inputs": ["product", "b"] },
    { "name": "active", "op": "gelu", "inputs": ["sum"], "attributes": { "approximate": "tanh" } },
    { "name": "residual", "op": "add", "inputs": ["active", "x"] },
    { "name": "probabilities", "op": "softmax", "inputs": ["residual"], "attributes": { "dim": -1 } },
    { "name": "best", "op": "argmax", "inputs": ["probabilities"], "attributes": { "dim": -1 } }
  ],
  "outputs": ["probabilities", "best"]
}
`;

/** A larger graph has a list of its nodes only. */
const MOST_DRAWN = 200;

const kept = { text: undefined as Signal<string> | undefined };

export function Graphs() {
    const own = useSignal(SAMPLE);
    const text = (kept.text ??= own);
    const device = useSignal("");
    const parsed = useComputed((): { graph?: Graph; failure?: Failure } => {
        try {
            return { graph: read(text.value) };
        } catch (error) {
            return { failure: Failure.of(error) };
        }
    });
    const run = useCall(async (signal) => {
        const graph = read(text.value);
        const { outputs } = await call<{ outputs: Tensor[] }>(
            "TensorService/Execute",
            { ...request(graph), device: device.value.trim() },
            signal,
        );
        return outputs.map((value, at) => ({ name: graph.outputs[at] ?? "", value }));
    });
    const { graph, failure } = parsed.value;
    return (
        <>
            <div class="halves">
                <Section
                    title="Graph"
                    note="JSON. Inputs are nested lists, random(n, m) and the like, or an element type and one of these."
                >
                    <Editor label="Graph" text={text} rows={22} onSubmit={() => void run.start()} />
                    <AddNode text={text} graph={graph} />
                </Section>
                <Section
                    title="Nodes"
                    note={graph && `${count(graph.nodes.length)} operations, ${count(Object.keys(graph.inputs).length)} inputs`}
                >
                    <Failed failure={failure} />
                    {graph && graph.nodes.length <= MOST_DRAWN && <Drawing of={graph} />}
                    {graph && (
                        <Rows
                            label="Nodes"
                            role="list"
                            height={22}
                            count={graph.nodes.length}
                            class="elements"
                            empty="The graph has no nodes."
                            render={(index) => {
                                const node = graph.nodes[index]!;
                                return (
                                    <>
                                        <span class="of">{node.name}</span>
                                        <span class="kind">
                                            {node.op}({node.inputs.join(", ")})
                                        </span>
                                        <span class="detail">
                                            {Object.entries(node.attributes ?? {})
                                                .map(([name, value]) => `${name}=${JSON.stringify(value)}`)
                                                .join(" ")}
                                        </span>
                                    </>
                                );
                            }}
                        />
                    )}
                </Section>
            </div>
            <Section title="Results">
                <form
                    class="controls"
                    aria-label="Run"
                    onSubmit={(event) => {
                        event.preventDefault();
                        void run.start();
                    }}
                >
                    <Field label="Device" hint="any if empty">
                        {(id) => (
                            <input
                                id={id}
                                class="code short"
                                placeholder="cuda:0"
                                value={device.value}
                                onInput={(event) => (device.value = event.currentTarget.value)}
                            />
                        )}
                    </Field>
                    <button type="submit" disabled={!graph || run.state.value.pending}>
                        Run
                    </button>
                </form>
                <Outcome of={run.state} />
                <div class="tensors">
                    {run.state.value.value?.map(({ name, value }) => (
                        <TensorView key={name} name={name} of={value} />
                    ))}
                </div>
            </Section>
        </>
    );
}

/** Adds a node to the graph, which is formatted anew. */
function AddNode({ text, graph }: { text: Signal<string>; graph: Graph | undefined }) {
    const name = useSignal("");
    const op = useSignal("");
    const inputs = useSignal("");
    const add = () => {
        const whole = JSON.parse(text.value) as Graph;
        const made = name.value.trim() || `${op.value.trim()}${whole.nodes.length + 1}`;
        whole.nodes.push({
            name: made,
            op: op.value.trim(),
            inputs: inputs.value
                .split(",")
                .map((one) => one.trim())
                .filter(Boolean),
        });
        whole.outputs = [made];
        const line = (value: unknown) => JSON.stringify(value).replaceAll(/([:,])(?=\S)(?=(?:[^"]*"[^"]*")*[^"]*$)/g, "$1 ");
        const nodes = whole.nodes.map((node) => `    ${line(node)}`).join(",\n");
        const given = Object.entries(whole.inputs ?? {})
            .map(([own, value]) => `    ${JSON.stringify(own)}: ${line(value)}`)
            .join(",\n");
        text.value = `{\n  "inputs": {\n${given}\n  },\n  "nodes": [\n${nodes}\n  ],\n  "outputs": ${line(whole.outputs)}\n}\n`;
        name.value = "";
    };
    const known = graph ? [...Object.keys(graph.inputs), ...graph.nodes.map((node) => node.name)] : [];
    const control = (label: string, of: Signal<string>, placeholder: string) => (
        <Field label={label}>
            {(id) => (
                <input
                    id={id}
                    class="code short"
                    placeholder={placeholder}
                    value={of.value}
                    onInput={(event) => (of.value = event.currentTarget.value)}
                />
            )}
        </Field>
    );
    return (
        <form
            class="controls"
            aria-label="Add a node"
            onSubmit={(event) => {
                event.preventDefault();
                add();
            }}
        >
            {control("Operation", op, "relu")}
            {control("Reads", inputs, known.at(-1) ?? "x")}
            {control("Name", name, "made of the operation")}
            <button type="submit" class="quiet" disabled={!graph || !op.value.trim()}>
                Add node
            </button>
        </form>
    );
}

const WIDTH = 108;
const HEIGHT = 40;
const GAP_X = 28;
const GAP_Y = 16;

function Drawing({ of }: { of: Graph }) {
    const { placed, edges, columns, rows } = place(of);
    const outputs = new Set(of.outputs);
    const width = columns * (WIDTH + GAP_X) - GAP_X;
    const height = rows * (HEIGHT + GAP_Y) - GAP_Y;
    const x = (one: Placed) => one.column * (WIDTH + GAP_X);
    const y = (one: Placed) => one.row * (HEIGHT + GAP_Y);
    // An edge is level where it passes a column.
    const curve = (edge: Placed[]) =>
        edge
            .map((one, at) => {
                const level = y(one) + HEIGHT / 2;
                if (at === 0) return `M${x(one) + WIDTH} ${level}`;
                const from = x(edge[at - 1]!) + WIDTH;
                const bend = `C${(from + x(one)) / 2} ${y(edge[at - 1]!) + HEIGHT / 2} ${(from + x(one)) / 2} ${level} ${x(one)} ${level}`;
                return at === edge.length - 1 ? bend : `${bend}H${x(one) + WIDTH}`;
            })
            .join("");
    const short = (text: string) => (text.length > 14 ? `${text.slice(0, 13)}…` : text);
    return (
        <div class="drawing" tabIndex={0} role="region" aria-label="Picture of the graph">
            <svg
                width={width + 2}
                height={height + 2}
                viewBox={`-1 -1 ${width + 2} ${height + 2}`}
                role="img"
                aria-label={`${of.nodes.length} operations; the list below has them in words`}
            >
                {edges.map((edge, at) => (
                    <path key={at} d={curve(edge)} />
                ))}
                {placed.map((one) => (
                    <g
                        key={one.name}
                        class={one.op ? (outputs.has(one.name) ? "output" : "op") : "input"}
                        transform={`translate(${x(one)} ${y(one)})`}
                    >
                        <title>{one.op ? `${one.name}: ${one.op}` : one.name}</title>
                        <rect width={WIDTH} height={HEIGHT} rx={one.op ? 3 : 20} />
                        <text x={WIDTH / 2} y={16}>
                            {short(one.name)}
                        </text>
                        <text class="under" x={WIDTH / 2} y={31}>
                            {short(one.op || "input")}
                        </text>
                    </g>
                ))}
            </svg>
        </div>
    );
}
