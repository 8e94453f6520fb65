// Holdfast reads files from its package (SQL and the dashboard), so it must not be bundled.
export default { serverExternalPackages: ['holdfast'] }
