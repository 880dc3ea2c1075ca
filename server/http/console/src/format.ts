/** Numbers, sizes and times as text. */

const COUNT = new Intl.NumberFormat("en-US");

/** A number of 64 bits comes as text. */
export type Long = string | number;

export function count(value: Long | undefined): string {
    return COUNT.format(Number(value ?? 0));
}

function scaled(value: number, base: number, units: string[], digits = 3): string {
    let unit = 0;
    while (Math.abs(value) >= base && unit < units.length - 1) {
        value /= base;
        unit += 1;
    }
    const text = unit === 0 ? String(Math.round(value * 10) / 10) : value.toPrecision(digits).replace(/\.0+$/, "");
    return `${Number(text) >= 1000 ? Math.round(value) : text}${units[unit] ? ` ${units[unit]}` : ""}`;
}

export function bytes(value: Long | undefined): string {
    return scaled(Number(value ?? 0), 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
}

export function rate(value: number): string {
    return scaled(value, 1000, ["", "k", "M", "G", "T"]);
}

/** Seconds of a duration such as `1.5s`. */
export function seconds(duration: string | undefined): number {
    return duration ? Number.parseFloat(duration) : 0;
}

export function time(value: number): string {
    if (value === 0) return "0";
    const units: [number, string][] = [
        [1e-6, "ns"],
        [1e-3, "µs"],
        [1, "ms"],
        [60, "s"],
    ];
    const [limit, unit] = units.find(([limit]) => value < limit) ?? [0, ""];
    if (!unit) return span(value);
    const text = ((value / limit) * (unit === "s" ? 60 : 1000)).toPrecision(3);
    return `${text.includes("e") ? Number(text) : text} ${unit}`;
}

/** A long time, such as an uptime. */
export function span(value: number): string {
    const parts: [number, string][] = [
        [Math.floor(value / 86400), "d"],
        [Math.floor(value / 3600) % 24, "h"],
        [Math.floor(value / 60) % 60, "m"],
        [Math.floor(value) % 60, "s"],
    ];
    const first = parts.findIndex(([number]) => number > 0);
    return first < 0
        ? "0 s"
        : parts
              .slice(first, first + 2)
              .map(([number, unit]) => `${number} ${unit}`)
              .join(" ");
}

/** A value of an enum without its prefix, in words: `METRIC_SQUARED_L2` with `METRIC_` is `squared l2`. */
export function words(value: string | undefined, prefix: string): string {
    return (value ?? "").replace(prefix, "").replaceAll("_", " ").toLowerCase();
}

/** A number as short as it can be told apart. */
export function number(value: number | bigint | boolean | string): string {
    if (typeof value !== "number") return String(value);
    if (!Number.isFinite(value)) return String(value);
    if (Object.is(value, -0)) return "-0";
    return String(Number(value.toPrecision(9)));
}

export function percent(part: number, whole: number): string {
    return whole > 0 ? `${Math.round((100 * part) / whole)} %` : "—";
}
