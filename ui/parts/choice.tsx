interface ChoiceProps<Value> {
  readonly label: string
  readonly value: Value
  readonly options: readonly (readonly [value: Value, text: string])[]
  readonly onChange: (value: Value) => void
}

export function Choice<Value extends string | number>({ label, value, options, onChange }: ChoiceProps<Value>) {
  return (
    <select
      class="field"
      aria-label={label}
      value={value}
      onChange={({ currentTarget }) => onChange(options[currentTarget.selectedIndex]![0])}
    >
      {options.map(([one, text]) => (
        <option key={one} value={one}>
          {text}
        </option>
      ))}
    </select>
  )
}
