/** The elements of a tensor. */

import { count, number } from "../format";
import { dtypeName, Elements, shapeName } from "../tensor";
import type { Element, Tensor } from "../tensor";
import { Rows } from "./rows";

const COLUMNS = 16;

/** A tensor with its elements in rows of its last dimension. */
export function TensorView({ name, of }: { name: string; of: Tensor }) {
    const elements = new Elements(of);
    const inner = Math.max(1, elements.shape.at(-1) ?? 1);
    // A vector is shown in rows as well.
    const width = elements.shape.length > 1 ? inner : Math.min(inner, 8);
    const rows = Math.ceil(elements.length / width);
    return (
        <figure class="tensor">
            <figcaption>
                {name}{" "}
                <span class="note">
                    {dtypeName(of.dtype)} {shapeName(of.shape)}
                </span>
            </figcaption>
            {elements.length === 1 ? (
                <p class="value">{number(elements.at(0))}</p>
            ) : (
                <Rows
                    label={`Elements of ${name}`}
                    role="list"
                    height={22}
                    count={rows}
                    class="elements"
                    empty="The tensor has no elements."
                    render={(row) => {
                        const end = Math.min(elements.length, (row + 1) * width);
                        const shown = Math.min(end, row * width + COLUMNS);
                        return (
                            <>
                                <span class="rank">{index(row * width, elements.shape)}</span>
                                {Array.from({ length: shown - row * width }, (_, at) => (
                                    <span class="element" key={at}>
                                        {short(elements.at(row * width + at))}
                                    </span>
                                ))}
                                {end > shown && <span class="note">and {count(end - shown)} more</span>}
                            </>
                        );
                    }}
                />
            )}
        </figure>
    );
}

function short(element: Element): string {
    return typeof element === "number" && !Number.isInteger(element) ? number(Number(element.toPrecision(6))) : number(element);
}

/** The index of an element in its tensor, without that in the last of several dimensions. */
function index(at: number, shape: number[]): string {
    if (shape.length < 2) return String(at);
    const found: number[] = [];
    for (let dim = shape.length - 1; dim >= 0; dim -= 1) {
        const extent = Math.max(1, shape[dim]!);
        found.unshift(at % extent);
        at = Math.floor(at / extent);
    }
    return found.slice(0, -1).join(", ");
}

/** A small tensor in one line. */
export function inline(of: Tensor): string {
    const elements = new Elements(of);
    const shown = Array.from({ length: Math.min(elements.length, 12) }, (_, at) => number(elements.at(at)));
    const text = `${shown.join(", ")}${elements.length > 12 ? ", …" : ""}`;
    return elements.shape.some((extent) => extent !== 1) ? `[${text}]` : text;
}
