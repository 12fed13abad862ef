/** The parts of ECharts that the figures use, registered once. */
import { BarChart, CustomChart, LineChart } from "echarts/charts";
import { GraphicComponent, GridComponent, LegendComponent, MarkLineComponent, TooltipComponent } from "echarts/components";
import * as echarts from "echarts/core";
import { LabelLayout } from "echarts/features";
import { CanvasRenderer, SVGRenderer } from "echarts/renderers";

echarts.use([
  BarChart, CustomChart, LineChart,
  GraphicComponent, GridComponent, LegendComponent, MarkLineComponent, TooltipComponent,
  LabelLayout, CanvasRenderer, SVGRenderer,
]);

export { echarts };
export type { CustomSeriesRenderItemAPI as DrawApi, CustomSeriesRenderItemParams as DrawParams } from "echarts";
export type Option = Record<string, unknown>;
