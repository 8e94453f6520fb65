import './json-field.css'

interface JsonFieldProps {
  readonly label: string
  readonly value: string
  readonly onInput: (value: string) => void
}

export function JsonField({ label, value, onInput }: JsonFieldProps) {
  return (
    <label class="label stack dense">
      {label}
      <textarea
        class="field mono json-field"
        spellcheck={false}
        value={value}
        aria-invalid={mistakeOf(value) !== undefined}
        onInput={({ currentTarget }) => onInput(currentTarget.value)}
      />
    </label>
  )
}

/** Returns the reason why a text is not valid JSON. */
export function mistakeOf(text: string): string | undefined {
  try {
    JSON.parse(text)
    return undefined
  } catch (error) {
    return (error as Error).message
  }
}
