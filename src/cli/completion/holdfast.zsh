#compdef holdfast
# Completes holdfast commands in zsh. In ~/.zshrc, after compinit: source <(holdfast completion zsh)
_holdfast() {
  local found line
  local -a candidates
  if [[ ${words[CURRENT-1]} == -- ]]; then
    _command_names -e
    return
  fi
  if ! found=$("${words[1]}" __complete -- "${(@Q)words[2,CURRENT]}" 2> /dev/null); then
    _files
    return
  fi
  for line in "${(@f)found}"; do
    [[ -n $line ]] && candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
  done
  _describe -V holdfast candidates
}
if [[ ${funcstack[1]} == _holdfast ]]; then _holdfast; else compdef _holdfast holdfast; fi
