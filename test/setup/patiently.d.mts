export function patiently<T>(open: () => Promise<T>): Promise<T>
