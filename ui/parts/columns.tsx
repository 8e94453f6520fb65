// Columns that several tables share.
import { InstanceMark } from './instance-mark.js'
import { Name } from './name.js'
import type { Column } from './table.js'
import { None } from './time.js'

/** Column that shows instances. Without `link`, a click on the instance opens the row's details. */
export function instanceColumn<Row extends { id: string; name: string }>(link: boolean): Column<Row> {
  const cell = ({ id, name }: Row) => <InstanceMark id={id} name={name} link={link} />
  return { title: 'Instance', cell, sort: ({ name }) => name, wide: true }
}

/** Column that shows namespaces. Omitted if all rows have the same namespace. */
export function namespaceColumns<Row extends { namespace: string | null }>(
  rows: readonly Row[],
  spare: 1 | 2,
): Column<Row>[] {
  if (new Set(rows.map(({ namespace }) => namespace)).size <= 1) return []
  const cell = ({ namespace }: Row) => (namespace === null ? <None /> : <Name text={namespace} maxLength={20} />)
  return [{ title: 'Namespace', cell, sort: ({ namespace }) => namespace, spare }]
}
