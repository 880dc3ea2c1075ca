# shellcheck shell=sh
# Arguments: folder, URL of the hub that gets HF_TOKEN or empty, then sha256 or "-", path and URL of each file.
set -eu
cd "$1"
hub=$2
shift 2
part=
trap 'rm -f "$part"' EXIT
trap 'exit 143' TERM
while [ $# -gt 0 ]; do
    sum=$1 path=$2 url=$3
    shift 3
    matches() { [ "$sum" = - ] || echo "$sum  $1" | sha256sum -c > /dev/null 2>&1; }
    if [ -e "$path" ] && matches "$path"; then
        echo "$path is there"
        continue
    fi
    mkdir -p "$(dirname "$path")"
    # Pods that share a volume do not write one file, and the daemon sees whole files only.
    part=$path.$(hostname).part
    case $url in
        "${hub:-none}"/*) authorization=${HF_TOKEN:+Authorization: Bearer $HF_TOKEN} ;;
        *) authorization= ;;
    esac
    # curl drops the header where the hub redirects to another host. It is not among the arguments, which other processes see.
    printf '%s\n' "$authorization" | curl --fail --silent --show-error --location --retry 5 --header @- --output "$part" "$url"
    if ! matches "$part"; then
        echo "$url has not the sha256 $sum" >&2
        exit 1
    fi
    mv "$part" "$path"
    echo "$path downloaded"
done
