/** Kernels in Python: their translations, a run of one, and its times. */

import { useSignal } from "@preact/signals";
import type { Signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { call } from "../api";
import { decode } from "../columns";
import { bytes, count, number, rate, seconds, time, words } from "../format";
import { Outcome, useCall } from "../parts/call";
import { Editor, Listing, rangeAt } from "../parts/editor";
import type { Range } from "../parts/editor";
import { Facts, Field, Section, Table } from "../parts/layout";
import { Bars } from "../parts/spark";
import { Tabs } from "../parts/tabs";
import { TensorView } from "../parts/tensor";
import { dtypeName, written } from "../tensor";
import type { BenchmarkResponse, Kernel, KernelDiagnostic, KernelFault, KernelParam, LaunchResponse, TranslatedKernel } from "../wire";

const SAMPLE = `import math


def gauss(x: float, mean: float, deviation: float) -> float:
    z = (x - mean) / deviation
    return math.exp(-0.5 * z * z) / (deviation * math.sqrt(2.0 * math.pi))
`;

const DIALECTS: [string, string][] = [
    ["KERNEL_DIALECT_UNSPECIFIED", "By its decorators"],
    ["KERNEL_DIALECT_PYTHON", "Python"],
    ["KERNEL_DIALECT_WARP", "Warp"],
];
const DEVICES: [string, string][] = [
    ["KERNEL_DEVICE_CPU", "CPU"],
    ["KERNEL_DEVICE_CUDA", "GPU"],
];

const kept = { text: undefined as Signal<string> | undefined };

interface Translation {
    source: string;
    dialect: string;
    kernels: TranslatedKernel[];
    diagnostics: KernelDiagnostic[];
}

export function Kernels() {
    const own = useSignal(SAMPLE);
    const text = (kept.text ??= own);
    const dialect = useSignal(DIALECTS[0]![0]);
    const range = useSignal<Range | undefined>(undefined);
    const translate = useCall(async (signal): Promise<Translation> => {
        const request = { source: text.value, dialect: dialect.value };
        const response = await call<Omit<Translation, "source" | "dialect">>("KernelService/Translate", request, signal);
        const [first] = response.diagnostics;
        range.value = first && rangeAt(text.value, first.line, first.column);
        return { ...request, ...response };
    });
    const found = translate.state.value.value;
    return (
        <>
            <div class="halves">
                <Section title="Source" note="Python; each annotated function, or each function with a decorator of Warp, is a kernel.">
                    <form
                        class="controls"
                        aria-label="Translate"
                        onSubmit={(event) => {
                            event.preventDefault();
                            void translate.start();
                        }}
                    >
                        <Choice label="Dialect" of={dialect} among={DIALECTS} />
                        <button type="submit" disabled={translate.state.value.pending}>
                            Translate
                        </button>
                    </form>
                    <Editor
                        label="Source of the kernels"
                        text={text}
                        rows={20}
                        range={range.value}
                        onSubmit={() => void translate.start()}
                    />
                </Section>
                <Section title="Translation">
                    <Outcome of={translate.state} busy="Translating…" />
                    {found && found.diagnostics.length > 0 && <Diagnostics of={found.diagnostics} />}
                    {found?.kernels.map((kernel) => (
                        <Translated key={kernel.name} of={kernel} />
                    ))}
                    {!found && !translate.state.value.pending && (
                        <p class="empty">Translate the source to see it as CUDA C++ and as WebAssembly.</p>
                    )}
                </Section>
            </div>
            {found && found.kernels.length > 0 && <Run key={`${found.dialect} ${found.source}`} of={found} />}
            <KeptKernels />
        </>
    );
}

export function Choice({ label, of, among }: { label: string; of: Signal<string>; among: [string, string][] }) {
    return (
        <Field label={label}>
            {(id) => (
                <select id={id} value={of.value} onChange={(event) => (of.value = event.currentTarget.value)}>
                    {among.map(([value, name]) => (
                        <option key={value} value={value}>
                            {name}
                        </option>
                    ))}
                </select>
            )}
        </Field>
    );
}

function Diagnostics({ of }: { of: KernelDiagnostic[] }) {
    return (
        <ul class="failures" role="alert">
            {of.map((one, at) => (
                <li class="failure" key={at}>
                    <strong>{one.code}</strong>
                    {one.kernel && <span class="fact">{one.kernel}</span>}
                    {one.line > 0 && (
                        <span class="fact">
                            line {one.line}, column {one.column}
                        </span>
                    )}
                    <p>{one.message}</p>
                </li>
            ))}
        </ul>
    );
}

function paramType(param: KernelParam): string {
    const [first] = param.components;
    const element = param.components.length === 1 && first ? dtypeName(first.dtype) : `struct of ${param.components.length}`;
    return param.dims ? `${element}[${Array(param.dims).fill(":").join(", ")}]` : element;
}

function Translated({ of }: { of: TranslatedKernel }) {
    return (
        <>
            <h3>
                {of.name}
                <span class="note">{of.bitExact ? "the same bits on every device" : "last bits differ between devices"}</span>
            </h3>
            <Facts of={of.params.map((param): [string, string] => [param.name, paramType(param)])} />
            <Tabs
                label={`Files of ${of.name}`}
                tabs={of.files.map((file) => ({ name: file.name, panel: () => <File name={file.name} content={file.content} /> }))}
            />
        </>
    );
}

function File({ name, content }: { name: string; content: string }) {
    const data = decode(content);
    const save = () => {
        const url = URL.createObjectURL(new Blob([data]));
        const link = Object.assign(document.createElement("a"), { href: url, download: name });
        link.click();
        setTimeout(() => URL.revokeObjectURL(url), 10_000);
    };
    return (
        <>
            <div class="controls">
                <span class="note">{bytes(data.length)}</span>
                <button type="button" class="quiet" onClick={save}>
                    Save
                </button>
            </div>
            <Listing label={name} text={name.endsWith(".wasm") ? hex(data) : new TextDecoder().decode(data)} />
        </>
    );
}

/** The bytes of a file, 16 in a row. */
function hex(data: Uint8Array): string {
    const rows: string[] = [];
    for (let at = 0; at < Math.min(data.length, 16_384); at += 16) {
        const row = data.subarray(at, at + 16);
        const digits = Array.from(row, (byte) => byte.toString(16).padStart(2, "0")).join(" ");
        const text = Array.from(row, (byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
        rows.push(`${at.toString(16).padStart(6, "0")}  ${digits.padEnd(47)}  ${text}`);
    }
    if (data.length > 16_384) rows.push("…");
    return rows.join("\n");
}

function Run({ of }: { of: Translation }) {
    const name = useSignal(of.kernels[0]!.name);
    const program = { source: of.source, dialect: of.dialect, name: name.value };
    const compile = useCall(async (signal) => (await call<{ kernel: Kernel }>("KernelService/Compile", { program }, signal)).kernel);
    useEffect(() => void compile.start(), [name.value]);
    const kernel = compile.state.value.value;
    return (
        <Section title="Run" note="Arguments are numbers, nested lists, or one of arange(n), random(n, m), ones(n) and zeros(n, m).">
            {of.kernels.length > 1 && (
                <div class="controls">
                    <Choice label="Kernel" of={name} among={of.kernels.map((one) => [one.name, one.name])} />
                </div>
            )}
            <Outcome of={compile.state} busy="Compiling…" hideTime />
            {kernel?.name === name.value && <Launch key={kernel.id} kernel={kernel} />}
        </Section>
    );
}

function Launch({ kernel }: { kernel: Kernel }) {
    const writesOnly = (param: KernelParam) => kernel.dialect === "KERNEL_DIALECT_PYTHON" && kernel.writtenArrays.includes(param.name);
    const given = kernel.params.filter((param) => !writesOnly(param));
    const first = (param: KernelParam) =>
        param.dims
            ? `random(${Array(param.dims)
                  .fill(param.dims > 1 ? 64 : 1024)
                  .join(", ")})`
            : "1";
    const texts = useSignal<Record<string, string>>(Object.fromEntries(given.map((param) => [param.name, first(param)])));
    const isPython = kernel.dialect === "KERNEL_DIALECT_PYTHON";
    const grid = useSignal(isPython ? "" : Array(kernel.gridDims).fill("1024").join(", "));
    const device = useSignal(DEVICES[0]![0]);
    const request = () => ({
        kernelId: kernel.id,
        device: device.value,
        grid: grid.value
            .split(",")
            .map((part) => part.trim())
            .filter(Boolean),
        arguments: given
            .filter((param) => texts.value[param.name]?.trim())
            .map((param) => ({
                name: param.name,
                value: argument(param, texts.value[param.name]!),
            })),
    });
    const launch = useCall(async (signal) => call<LaunchResponse>("KernelService/Launch", request(), signal));
    const benchmark = useCall(async (signal) => call<BenchmarkResponse>("KernelService/Benchmark", { launch: request() }, signal));
    return (
        <>
            <form
                class="controls"
                aria-label="Run"
                onSubmit={(event) => {
                    event.preventDefault();
                    void launch.start();
                }}
            >
                {given.map((param) => (
                    <Field key={param.name} label={`${param.name}: ${paramType(param)}`}>
                        {(id) => (
                            <input
                                id={id}
                                class="code"
                                value={texts.value[param.name]}
                                onInput={(event) => (texts.value = { ...texts.value, [param.name]: event.currentTarget.value })}
                            />
                        )}
                    </Field>
                ))}
                <Field label="Grid" {...(isPython && { hint: "one thread for each element if empty" })}>
                    {(id) => (
                        <input
                            id={id}
                            class="code short"
                            value={grid.value}
                            onInput={(event) => (grid.value = event.currentTarget.value)}
                        />
                    )}
                </Field>
                <Choice label="On" of={device} among={DEVICES} />
                <button type="submit" disabled={launch.state.value.pending}>
                    Run
                </button>
                <button type="button" class="quiet" disabled={benchmark.state.value.pending} onClick={() => benchmark.start()}>
                    Time it
                </button>
            </form>
            <Outcome of={launch.state} />
            {launch.state.value.value && <Launched of={launch.state.value.value} />}
            <Outcome of={benchmark.state} busy="Timing 20 runs…" />
            {benchmark.state.value.value && <Timed of={benchmark.state.value.value} />}
        </>
    );
}

function argument(param: KernelParam, text: string) {
    const [first] = param.components;
    return written(text, param.components.length > 0 && first ? first.dtype : "DTYPE_U8");
}

function Fault({ of }: { of: KernelFault }) {
    const where = [
        of.line > 0 && `line ${of.line}, column ${of.column}`,
        `thread ${of.thread}`,
        of.array && `array ${of.array}`,
        of.variable && `variable ${of.variable}`,
        Number(of.extent) > 0 && `index ${of.index} of ${of.extent}`,
    ].filter(Boolean);
    return (
        <div class="failure" role="alert">
            <strong>{words(of.kind, "KERNEL_FAULT_KIND_")}</strong>
            <p>{where.join(", ")}</p>
        </div>
    );
}

function Launched({ of }: { of: LaunchResponse }) {
    return (
        <>
            {of.fault && <Fault of={of.fault} />}
            <Facts
                of={[
                    ["Threads ran for", time(seconds(of.executionTime))],
                    ["On", words(of.device, "KERNEL_DEVICE_")],
                ]}
            />
            <div class="tensors">
                {of.outputs.map(({ name, value }) => (
                    <TensorView key={name} name={name} of={value} />
                ))}
            </div>
        </>
    );
}

function Timed({ of }: { of: BenchmarkResponse }) {
    const times = of.runTimes.map(seconds);
    const passed = of.verdict === "BENCHMARK_VERDICT_PASSED";
    return (
        <div class="timed">
            {of.fault && <Fault of={of.fault} />}
            <Facts
                of={[
                    ["Verdict", <span class={passed ? "good" : "bad"}>{words(of.verdict, "BENCHMARK_VERDICT_")}</span>],
                    ["Median", time(seconds(of.medianTime))],
                    ["10th to 90th percentile", `${time(seconds(of.p10Time))} to ${time(seconds(of.p90Time))}`],
                    ["Shortest plausible", time(seconds(of.minTime))],
                    ["Threads", `${count(of.threadCount)}, ${rate(of.threadsPerSecond)} per second`],
                    ["Arrays", `${bytes(of.arrayBytes)}, ${bytes(of.bytesPerSecond)}/s`],
                    [`${times.length} runs`, <Bars values={times} />],
                ]}
            />
            {of.mismatches.length > 0 && (
                <Table
                    label="Mismatches"
                    columns={["Array", "#Run", "#Elements", "#First", "#Actual", "#Expected"]}
                    rows={of.mismatches.map((one) => [
                        one.output,
                        one.run,
                        count(one.failedCount),
                        count(one.index),
                        number(one.actual),
                        number(one.expected),
                    ])}
                />
            )}
        </div>
    );
}

function KeptKernels() {
    const list = useCall(async (signal) => (await call<{ kernels: Kernel[] }>("KernelService/ListKernels", {}, signal)).kernels);
    useEffect(() => void list.start(), []);
    const kernels = list.state.value.value ?? [];
    return (
        <Section title="Compiled kernels" note="Those that the daemon keeps, the most recently used first.">
            <div class="controls">
                <button type="button" class="quiet" onClick={() => list.start()}>
                    Refresh
                </button>
            </div>
            <Outcome of={list.state} busy="Reading…" hideTime />
            <Table
                label="Compiled kernels"
                columns={["Name", "Dialect", "Parameters", "#Size", "Id"]}
                rows={kernels
                    .slice(0, 200)
                    .map((one) => [
                        one.name,
                        words(one.dialect, "KERNEL_DIALECT_"),
                        one.params.map((param) => `${param.name}: ${paramType(param)}`).join(", "),
                        bytes(one.sizeBytes),
                        one.id.slice(0, 12),
                    ])}
            />
        </Section>
    );
}
