// Enums of the protocol by the names that callers write: `f32` of OUTPUT_TYPE_F32.

/** Returns the number of a name; undefined is 0, the default. */
export function choice(what: string, numbers: Readonly<Record<string, string | number>>, name: string | undefined): number {
    if (name === undefined) return 0;
    const found = numbers[name.toUpperCase()];
    if (typeof found === "number" && found !== 0 && name === name.toLowerCase()) return found;
    throw new RangeError(`${what}: expected one of ${names(numbers).join(", ")}, got "${name}"`);
}

/** Returns the name of a number. */
export function nameOf(numbers: Readonly<Record<string, string | number>>, value: number): string {
    return String(numbers[value] ?? value).toLowerCase();
}

function names(numbers: Readonly<Record<string, string | number>>): string[] {
    return Object.entries(numbers)
        .filter(([, value]) => typeof value === "number" && value !== 0)
        .map(([name]) => name.toLowerCase());
}
