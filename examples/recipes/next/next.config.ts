// Holdfast reads files of its own (SQL, the pages of the dashboard), so it must not be bundled.
export default { serverExternalPackages: ['holdfast'] }
