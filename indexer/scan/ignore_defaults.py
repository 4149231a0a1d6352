"""The built-in deny list, written as a rule file; a negated rule undoes any line of it."""

from typing import Final

# No line here contains a slash before its end: such rules would stay live in every folder.
DEFAULT_RULES: Final = rb"""
# Version control and our own state: not content.
.git
.merkle
.hg/
.svn/
.bzr/
.jj/
.sl/

# Installed dependencies: somebody else's source, restored from a manifest.
node_modules/
bower_components/
jspm_packages/
__pypackages__/
.pnpm-store/

# Virtual environments.
.venv/
venv/
.virtualenv/
.direnv/
.conda/

# Caches: tools write them during every run.
__pycache__/
.cache/
.pytest_cache/
.mypy_cache/
.ruff_cache/
.pytype/
.pyre/
.hypothesis/
.tox/
.nox/
.eggs/
.ipynb_checkpoints/
.parcel-cache/
.turbo/
.nx/
.sass-cache/
.eslintcache
.stylelintcache
.nyc_output/
.coverage
.coverage.*
!.coveragerc
htmlcov/
.terraform/
.bloop/
.metals/
.dart_tool/

# Build output: made from files that are indexed.
build/
dist/
target/
cmake-build-*/
CMakeFiles/
DerivedData/
dist-newstyle/
.stack-work/
.gradle/
.next/
.nuxt/
.svelte-kit/
.angular/
.docusaurus/
.serverless/
.aws-sam/
.zig-cache/
zig-cache/
elm-stuff/
*.egg-info/
*.pyc
*.pyo
*.class
*.o
*.obj

# Secrets: frames are shown to agents and models, so err on the side of leaving these out.
.env
.env.*
!.env.example
!.env.sample
!.env.template
.envrc
*.pem
*.key
*.p8
*.p12
*.pfx
*.ppk
*.jks
*.keystore
*.kdbx
*.crt
*.cer
*.der
id_rsa
id_dsa
id_ecdsa
id_ecdsa_sk
id_ed25519
id_ed25519_sk
.ssh/
.gnupg/
.aws/
.kube/
.netrc
_netrc
.npmrc
.pypirc
.pgpass
.my.cnf
.htpasswd
.git-credentials
.dockercfg
.vault-token
*.tfstate
*.tfstate.backup

# Droppings of operating systems and editors.
.DS_Store
Thumbs.db
desktop.ini
.Spotlight-V100/
.Trashes/
.fseventsd/
.Trash-*/
.nfs*
.fuse_hidden*
.idea/
*.swp
*.swo
.#*
\#*#
"""
