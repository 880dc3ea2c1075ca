/** Filters of points as a person writes them: `lang = "py", size >= 10, tag in ["a", "b"], path != "x"`. */

import type { Value } from "./wire";

interface Condition {
    field: string;
    equals?: Value;
    anyOf?: { values: Value[] };
    numberRange?: Partial<Record<"gt" | "gte" | "lt" | "lte", Value>>;
}

export interface Filter {
    must: Condition[];
    mustNot: Condition[];
}

const RANGES: Record<string, "gt" | "gte" | "lt" | "lte"> = { ">": "gt", ">=": "gte", "<": "lt", "<=": "lte" };
const CONDITION = /\s*([\w.-]+)\s*(=|!=|<=|>=|<|>|\bin\b)\s*(\[[^\]]*\]|"(?:[^"\\]|\\.)*"|[^,\s]+)\s*(,|$)/y;

function value(text: string): Value {
    if (/^[+-]?\d+$/.test(text)) return { intValue: text };
    const parsed: unknown = JSON.parse(text);
    switch (typeof parsed) {
        case "string":
            return { stringValue: parsed };
        case "boolean":
            return { boolValue: parsed };
        case "number":
            return { doubleValue: parsed };
        default:
            throw new Error(`expected a number, a "text", true or false, got ${text}`);
    }
}

/** The filter of a text; nothing for an empty one. */
export function filter(text: string): Filter | undefined {
    if (!text.trim()) return undefined;
    const made: Filter = { must: [], mustNot: [] };
    for (let at = 0; at < text.length;) {
        CONDITION.lastIndex = at;
        const found = CONDITION.exec(text);
        if (!found)
            throw new Error(
                `the filter: expected FIELD = VALUE, FIELD != VALUE, FIELD < VALUE or FIELD in [VALUES], got ${text.slice(at)}`,
            );
        const [, field = "", test = "", given = ""] = found;
        at = CONDITION.lastIndex;
        const range = RANGES[test];
        if (range) made.must.push({ field, numberRange: { [range]: value(given) } });
        else if (test === "in")
            made.must.push({ field, anyOf: { values: (JSON.parse(given) as unknown[]).map((one) => value(JSON.stringify(one))) } });
        else (test === "=" ? made.must : made.mustNot).push({ field, equals: value(given) });
    }
    return made;
}
