import { sql } from './facts.js'

/** Describes all objects of a schema from the catalogs, one sorted line per object. */
export async function catalogOf(url: string, schema: string): Promise<string[]> {
  const rows = await sql<{ line: string }>(url, description, [schema])
  return rows.map(({ line }) => line)
}

/**
 * Tables, views, columns, functions and sequences of the schema without a comment. Columns of partitions are exempt, and so are columns
 * with a clear name. Columns of a view that have the name of a commented column of the job queue are exempt, and columns whose table refers to
 * another one: "Columns without a comment: see job."
 */
export async function uncommented(url: string, schema: string): Promise<string[]> {
  const lines = await catalogOf(url, schema)
  const referred = new Map<string, string>()
  for (const line of lines) {
    const [, table, other] = /^relation [rp] (\S+) .* Columns without a comment: see (\w+)\./.exec(line) ?? []
    if (table) referred.set(table, other!)
  }
  const columns = new Set(lines.flatMap((line) => /^column (\S+) .* comment: ./.exec(line)?.[1] ?? []))
  const views = new Set(lines.flatMap((line) => /^relation v (\S+) /.exec(line)?.[1] ?? []))
  const ofJobs = new Set([...columns].flatMap((path) => /^(?:job\w*|claim|waiting)\.(\w+)$/.exec(path)?.[1] ?? []))
  const isExempt = (line: string) => {
    const [, table, column] = /^column (\w+)\.(\w+) /.exec(line) ?? []
    if (table === undefined || column === undefined) return false
    if (
      /^(namespace|name|key|queue|kind|instance|id|host|fence|number|generation|payload|since|\w+ed_at)$/.test(column)
    )
      return true
    if (/^(job|job_end|job_stopped)_(default|\d{8})$/.test(table)) return true
    return columns.has(`${referred.get(table)}.${column}`) || (views.has(table) && ofJobs.has(column))
  }
  return lines.filter(
    (line) => /^(relation [rpSv]|column|function) /.test(line) && line.endsWith(' comment:') && !isExempt(line),
  )
}

const description = `
with schema as (
  select oid from pg_namespace where nspname = $1
),
relations as (
  select pg_class.* from pg_class join schema on relnamespace = schema.oid
)
select line
from (
  select format('relation %s %s persistence %s options %s comment:%s',
    relkind, relname, relpersistence, reloptions, ' ' || obj_description(oid, 'pg_class')) as line
  from relations
  where relkind not in ('i', 'I', 't')
  union all
  select format('column %s.%s %s not null %s default %s comment:%s',
    relname, attname, format_type(atttypid, atttypmod), attnotnull, pg_get_expr(adbin, adrelid),
    ' ' || col_description(attrelid, attnum))
  from relations
  join pg_attribute on attrelid = relations.oid and attnum > 0 and not attisdropped
  left join pg_attrdef on adrelid = attrelid and adnum = attnum
  where relkind in ('r', 'p', 'v')
  union all
  select format('constraint %s on %s %s', conname, relname, pg_get_constraintdef(pg_constraint.oid))
  from pg_constraint
  join relations on conrelid = relations.oid
  union all
  select 'index ' || pg_get_indexdef(indexrelid)
  from pg_index
  join relations on indrelid = relations.oid
  union all
  select format('function %s comment:%s', pg_get_functiondef(pg_proc.oid), ' ' || obj_description(pg_proc.oid, 'pg_proc'))
  from pg_proc
  join schema on pronamespace = schema.oid
  where prokind in ('f', 'p')
  union all
  select format('view %s %s', relname, pg_get_viewdef(oid))
  from relations
  where relkind = 'v'
  union all
  select format('sequence %s %s %s %s %s %s', sequencename, data_type, start_value, min_value, max_value, cycle)
  from pg_sequences
  where schemaname = $1
) as lines
order by line`
