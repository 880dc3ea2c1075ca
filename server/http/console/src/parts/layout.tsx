/** Sections, tables and lists of facts, which all views share. */

import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

export function Section({ title, note, children }: { title: string; note?: ComponentChildren; children: ComponentChildren }) {
    const id = useId();
    return (
        <section aria-labelledby={id}>
            <header>
                <h2 id={id}>{title}</h2> {note !== undefined && <p class="note">{note}</p>}
            </header>
            {children}
        </section>
    );
}

/** A table that scrolls within the page, with a row header in its first column. Columns with `#` before their names have numbers. */
export function Table({ label, columns, rows, empty }: { label: string; columns: string[]; rows: ComponentChildren[][]; empty?: string }) {
    if (rows.length === 0) return <p class="empty">{empty ?? "None."}</p>;
    const isNumber = columns.map((column) => column.startsWith("#"));
    return (
        <div class="table" role="group" aria-label={label} tabIndex={0}>
            <table>
                <thead>
                    <tr>
                        {columns.map((column, at) => (
                            <th key={at} scope="col" class={isNumber[at] ? "number" : ""}>
                                {column.replace("#", "")}
                            </th>
                        ))}
                    </tr>
                </thead>
                <tbody>
                    {rows.map((row, at) => (
                        <tr key={at}>
                            {row.map((cell, column) =>
                                column === 0 ? (
                                    <th key={column} scope="row">
                                        {cell}
                                    </th>
                                ) : (
                                    <td
                                        key={column}
                                        class={`${isNumber[column] ? "number" : ""} ${cell === "0" || cell === "—" ? "nil" : ""}`}
                                    >
                                        {cell}
                                    </td>
                                ),
                            )}
                        </tr>
                    ))}
                </tbody>
            </table>
        </div>
    );
}

export function Facts({ of }: { of: [string, ComponentChildren][] }) {
    return (
        <dl class="facts">
            {of.map(([name, value]) => (
                <div key={name}>
                    <dt>{name}</dt>
                    <dd>{value}</dd>
                </div>
            ))}
        </dl>
    );
}

/** A control with its label. */
export function Field({ label, children, hint }: { label: string; children: (id: string) => ComponentChildren; hint?: string }) {
    const id = useId();
    return (
        <div class="field">
            <label for={id}>{label}</label>
            {children(id)}
            {hint && <small>{hint}</small>}
        </div>
    );
}
