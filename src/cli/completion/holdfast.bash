# Completes holdfast commands in bash. In ~/.bashrc: source <(holdfast completion bash)
_holdfast() {
  local line=${COMP_LINE:0:COMP_POINT} words found word rest current
  read -ra words <<< "$line"
  [[ $line == *[[:space:]] ]] && words+=('')
  current=${words[${#words[@]}-1]}
  COMPREPLY=()
  if [[ ${words[${#words[@]}-2]} == -- ]]; then
    while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -c -- "$current")
    return
  fi
  if ! found=$("${COMP_WORDS[0]}" __complete -- "${words[@]:1}" 2> /dev/null); then
    compopt -o filenames 2> /dev/null
    while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$current")
    return
  fi
  # bash splits words at colons and equals signs, and replaces only the part after the last one.
  rest=${current%"${current##*[:=]}"}
  while IFS=$'\t' read -r word _; do
    [[ -n $word ]] || continue
    printf -v word %q "$word"
    COMPREPLY+=("${word#"$rest"}")
  done <<< "$found"
}
complete -F _holdfast holdfast
