# Sourced by the commands beside it: finds a Python, makes a virtual environment of the checkout's own, fills it.
#
# prepare NAME PIP_ARGUMENTS... sets `root` (the checkout) and `python` (the environment's). The newest supported
# Python that can make an environment is taken, from PATH or from pyenv's versions; PYTHON=/path/to/python chooses
# one. Each is tried before it is trusted: a pyenv shim may be there and answer only that no version is set.
# An environment belongs to one Python and one pyproject.toml, and counts as made once its stamp is written.

supported="3.13 3.12 3.11"
root=$(cd "$(dirname "$0")/.." && pwd)
unset PYTHONHOME PYTHONPATH PIP_USER PIP_TARGET PIP_PREFIX

# version_of PYTHON: print its version if it works, is supported and can make environments.
version_of() {
    found=$("$1" -c 'import ensurepip, sys, venv; print("%d.%d" % sys.version_info[:2])' </dev/null 2>/dev/null) || return 1
    case " $supported " in *" $found "*) echo "$found" ;; *) return 1 ;; esac
}

# candidates VERSION: print every place where this version may be, one a line.
candidates() {
    old_ifs=$IFS
    IFS=:
    for folder in $PATH; do
        echo "$folder/python$1"
    done
    IFS=$old_ifs
    for pyenv in ${PYENV_ROOT:+"$PYENV_ROOT"} "${HOME:-}/.pyenv"; do
        for folder in "$pyenv/versions/$1"*; do
            echo "$folder/bin/python$1"
        done
    done
}

# find_python: set `base` and `version`, or end with one line that says what is missing.
find_python() {
    if [ -n "${PYTHON:-}" ]; then
        base=$PYTHON
        version=$(version_of "$base") && return
        echo "PYTHON=$PYTHON does not run, is none of $supported, or cannot make virtual environments" >&2
        exit 1
    fi
    for version in $supported; do
        while IFS= read -r base; do
            if [ -x "$base" ] && [ "$(version_of "$base")" = "$version" ]; then
                return
            fi
        done <<LIST
$(candidates "$version")
LIST
    done
    echo "no usable Python found: one of $supported with its venv module is needed, on PATH or in pyenv" >&2
    exit 1
}

# pip ARGUMENTS...: run the environment's pip; only errors are printed.
pip() {
    (cd "$root" && "$python" -m pip -qq --disable-pip-version-check --no-input "$@" </dev/null)
}

# fill PIP_ARGUMENTS...: make the environment anew; whatever an interrupted attempt left is cleared.
fill() {
    echo "making $environment (once for this Python and pyproject.toml)"
    "$base" -m venv --clear "$environment" </dev/null
    pip install --root-user-action=ignore --upgrade "pip>=25.1" # the first that knows dependency groups
    pip install --root-user-action=ignore "$@"
    touch "$environment/stamp"
}

prepare() {
    find_python
    name=$1
    shift
    environment="$root/.venvs/py$version-$(cksum <"$root/pyproject.toml" | cut -d ' ' -f 1)-$name"
    python="$environment/bin/python"
    echo "Python $version ($base)"
    mkdir -p "$root/.venvs"
    exec 9>"$root/.venvs/lock"
    if command -v flock >/dev/null; then
        flock 9
    fi
    if [ ! -e "$environment/stamp" ]; then
        fill "$@"
    fi
    exec 9>&-
}
