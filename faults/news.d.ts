export const newsMs: number
