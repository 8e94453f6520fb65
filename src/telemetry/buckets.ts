/**
 * Histogram bounds in seconds. They are 11 of the 14 bounds from the OpenTelemetry messaging conventions, plus larger
 * bounds for long operations.
 */
export const buckets: number[] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300]
