# Completes holdfast commands in fish. In ~/.config/fish/config.fish: holdfast completion fish | source
function __holdfast_complete
  set -l words (commandline -opc) (commandline -ct)
  set -l found ($words[1] __complete -- $words[2..-1] 2> /dev/null)
  if test $status -ne 0
    __fish_complete_path (commandline -ct)
  else
    string join \n -- $found
  end
end
complete -c holdfast -f -a '(__holdfast_complete)'
