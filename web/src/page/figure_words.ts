/** A figure with its text in the language of the page, for what is drawn and saved. */
import type { Axis, Figure, Span } from "../report";
import { told } from "../words/words";

export function inWords(figure: Figure): Figure {
  const one = (text: string) => told(text).text;
  const axis = (axis: Axis): Axis => ({ ...axis, label: one(axis.label), unit: one(axis.unit) });
  const span = (span: Span): Span => ({ ...span, name: one(span.name) });
  const optional = (text: string | null | undefined) => (text ? one(text) : text);
  return {
    ...figure,
    title: one(figure.title), subtitle: optional(figure.subtitle), note: optional(figure.note),
    x: axis(figure.x), y: axis(figure.y),
    categories: figure.categories?.map(one),
    series: figure.series.map((series) => ({ ...series, name: one(series.name) })),
    marks: figure.marks?.map((mark) => ({
      ...mark, label: one(mark.label), category: optional(mark.category), series: optional(mark.series),
    })),
    phases: figure.phases?.map(span), contaminated: figure.contaminated?.map(span),
    window: figure.window && span(figure.window), warm_up: figure.warm_up && span(figure.warm_up),
    panels: figure.panels?.map((panel) => ({ ...panel, title: one(panel.title), y: panel.y && axis(panel.y) })),
  };
}
