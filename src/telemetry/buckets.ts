/** Bounds of histograms, in seconds: as the conventions of messaging advise them, with more room for what takes long. */
export const buckets: number[] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300]
